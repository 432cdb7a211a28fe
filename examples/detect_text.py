"""Find text in a picture and tell which way up it is: an ordinary pyACL program, two offline models.

usage: detect_text.py DET.om CLS.om PICTURE OUTPUT

The detector gives a probability map (DB text detection); boxes are cut out of it, and every crop goes through
the orientation classifier. The annotated picture is written to OUTPUT.
"""

import sys

import numpy as np
from PIL import Image, ImageDraw

import acl

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def check(name, ret):
    if ret != 0:
        raise RuntimeError(f"{name} failed: ret {ret}: {acl.get_recent_err_msg()}")


class Model:
    """An offline model with its device buffers."""

    def __init__(self, path, stream):
        self.stream = stream
        self.model_id, ret = acl.mdl.load_from_file(path)
        check(f"acl.mdl.load_from_file({path})", ret)
        self.desc = acl.mdl.create_desc()
        check("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.model_id))
        self.inputs, self.input_buffers = self._dataset(acl.mdl.get_num_inputs, acl.mdl.get_input_size_by_index)
        self.outputs, self.output_buffers = self._dataset(acl.mdl.get_num_outputs, acl.mdl.get_output_size_by_index)
        dims, ret = acl.mdl.get_input_dims(self.desc, 0)
        check("acl.mdl.get_input_dims", ret)
        self.input_shape = tuple(dims["dims"])

    def _dataset(self, count, size_of):
        dataset, buffers = acl.mdl.create_dataset(), []
        for i in range(count(self.desc)):
            size = size_of(self.desc, i)
            pointer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
            check("acl.rt.malloc", ret)
            _, ret = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
            check("acl.mdl.add_dataset_buffer", ret)
            buffers.append((pointer, size))
        return dataset, buffers

    def run(self, array):
        data = np.ascontiguousarray(array, np.float32).tobytes()
        pointer, size = self.input_buffers[0]
        check("acl.rt.memcpy", acl.rt.memcpy(
            pointer, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE))
        check("acl.mdl.execute_async", acl.mdl.execute_async(self.model_id, self.inputs, self.outputs, self.stream))
        check("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
        results = []
        for i, (pointer, size) in enumerate(self.output_buffers):
            host = bytes(size)
            check("acl.rt.memcpy", acl.rt.memcpy(
                acl.util.bytes_to_ptr(host), size, pointer, size, ACL_MEMCPY_DEVICE_TO_HOST))
            dims, ret = acl.mdl.get_output_dims(self.desc, i)
            check("acl.mdl.get_output_dims", ret)
            results.append(np.frombuffer(host, np.float32).reshape(dims["dims"]))
        return results

    def close(self):
        for dataset, buffers in ((self.inputs, self.input_buffers), (self.outputs, self.output_buffers)):
            for i in range(acl.mdl.get_dataset_num_buffers(dataset)):
                acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, i))
            acl.mdl.destroy_dataset(dataset)
            for pointer, _ in buffers:
                check("acl.rt.free", acl.rt.free(pointer))
        acl.mdl.destroy_desc(self.desc)
        check("acl.mdl.unload", acl.mdl.unload(self.model_id))


def detector_input(picture, shape):
    _, _, height, width = shape
    rgb = np.asarray(picture.resize((width, height)), np.float32) / 255
    return ((rgb - MEAN) / STD)[:, :, ::-1].transpose(2, 0, 1)[None]


def classifier_input(crop, shape):
    _, _, height, width = shape
    scaled = min(width, max(1, round(height * crop.width / crop.height)))
    rgb = np.asarray(crop.resize((scaled, height)), np.float32) / 127.5 - 1
    padded = np.zeros((height, width, 3), np.float32)
    padded[:, :scaled] = rgb
    return padded[:, :, ::-1].transpose(2, 0, 1)[None]


def find_boxes(probability, threshold=0.3, box_threshold=0.6, unclip=1.6):
    """Boxes (left, top, right, bottom) of the connected regions above the threshold, grown by the DB rule."""
    mask = probability > threshold
    seen = np.zeros_like(mask)
    height, width = mask.shape
    boxes = []
    for y, x in np.argwhere(mask):
        if seen[y, x]:
            continue
        seen[y, x] = True
        region, queue = [], [(y, x)]
        while queue:
            cy, cx = queue.pop()
            region.append((cy, cx))
            for ny, nx in ((cy - 1, cx), (cy + 1, cx), (cy, cx - 1), (cy, cx + 1)):
                if 0 <= ny < height and 0 <= nx < width and mask[ny, nx] and not seen[ny, nx]:
                    seen[ny, nx] = True
                    queue.append((ny, nx))
        points = np.array(region)
        score = probability[points[:, 0], points[:, 1]].mean()
        (top, left), (bottom, right) = points.min(0), points.max(0) + 1
        h, w = bottom - top, right - left
        if score < box_threshold or min(h, w) < 3:
            continue
        grow = h * w * unclip / (2 * (h + w))
        boxes.append((max(0, left - grow), max(0, top - grow), min(width, right + grow), min(height, bottom + grow)))
    return sorted(boxes, key=lambda b: (b[1], b[0]))


def main(det_path, cls_path, picture_path, output_path):
    check("acl.init", acl.init())
    check("acl.rt.set_device", acl.rt.set_device(0))
    context, ret = acl.rt.create_context(0)
    check("acl.rt.create_context", ret)
    stream, ret = acl.rt.create_stream()
    check("acl.rt.create_stream", ret)

    detector, classifier = Model(det_path, stream), Model(cls_path, stream)
    picture = Image.open(picture_path).convert("RGB")
    probability = detector.run(detector_input(picture, detector.input_shape))[0][0, 0]
    sx, sy = picture.width / probability.shape[1], picture.height / probability.shape[0]

    annotated = picture.copy()
    draw = ImageDraw.Draw(annotated)
    for left, top, right, bottom in find_boxes(probability):
        box = (left * sx, top * sy, right * sx, bottom * sy)
        upright, upside_down = classifier.run(
            classifier_input(picture.crop(tuple(map(round, box))), classifier.input_shape))[0][0]
        colour = (0, 140, 60) if upright >= upside_down else (200, 30, 30)
        draw.rectangle(box, outline=colour, width=3)
        label = "0" if upright >= upside_down else "180"
        print(f"text at {', '.join(f'{v:.0f}' for v in box)}: turned {label} degrees "
              f"(confidence {max(upright, upside_down):.3f})")
    annotated.save(output_path)

    detector.close()
    classifier.close()
    check("acl.rt.destroy_stream", acl.rt.destroy_stream(stream))
    check("acl.rt.destroy_context", acl.rt.destroy_context(context))
    check("acl.rt.reset_device", acl.rt.reset_device(0))
    check("acl.finalize", acl.finalize())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
