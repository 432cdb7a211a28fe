"""Media units (DVPP): image processing, JPEG and PNG codecs, video codecs. Values by NumPy, Pillow and PyAV, time by
a throughput model; pictures lie in device memory as the public DVPP documentation describes them."""
