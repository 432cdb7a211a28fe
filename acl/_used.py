"""The functions that public programs call: 17 public repositories, 202 files, 4,107 calls, 193 functions.

Counted over the programs' syntax trees; repositories of samples, inference tools and libraries for Ascend.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = {
    "": """
        init finalize get_soc_name app_log create_data_buffer destroy_data_buffer get_data_buffer_addr
        get_data_buffer_size get_data_buffer_size_v2 data_type_size create_tensor_desc destroy_tensor_desc
        get_tensor_desc_size get_tensor_desc_num_dims get_tensor_desc_dim_v2 set_tensor_const
    """,
    "util": """
        numpy_to_ptr numpy_contiguous_to_ptr ptr_to_numpy bytes_to_ptr ptr_to_bytes start_thread stop_thread
    """,
    "rt": """
        set_device reset_device get_device get_run_mode synchronize_device create_context destroy_context
        set_context get_context ctx_get_current_default_stream create_stream destroy_stream synchronize_stream
        subscribe_report unsubscribe_report process_report launch_callback malloc free malloc_host free_host
        memcpy memcpy_async memset memset_async get_mem_info binary_load_from_file binary_unload
        binary_get_function launch_kernel_with_config kernel_args_init kernel_args_append kernel_args_finalize
    """,
    "mdl": """
        load_from_file load_from_mem unload bundle_load_from_file bundle_unload bundle_get_model_id
        bundle_get_model_num execute execute_async create_dataset destroy_dataset add_dataset_buffer
        get_dataset_buffer get_dataset_num_buffers set_dataset_tensor_desc get_dataset_tensor_desc create_desc
        destroy_desc get_desc get_num_inputs get_num_outputs get_input_size_by_index get_output_size_by_index
        get_input_dims get_output_dims get_cur_output_dims get_output_name_by_index get_input_format
        get_output_format get_input_data_type get_output_data_type get_input_index_by_name
        set_dynamic_batch_size set_dynamic_hw_size set_input_dynamic_dims get_dynamic_batch get_dynamic_hw
        get_input_dynamic_gear_count get_input_dynamic_dims
    """,
    "op": """
        set_model_dir execute_v2 execute_with_handle create_handle destroy_handle cast create_attr
        destroy_attr set_attr_bool
    """,
    "prof": """
        init finalize create_config destroy_config start stop
    """,
    "media": """
        dvpp_malloc dvpp_free dvpp_create_channel dvpp_destroy_channel dvpp_create_channel_desc
        dvpp_destroy_channel_desc dvpp_create_pic_desc dvpp_destroy_pic_desc dvpp_set_pic_desc_data
        dvpp_set_pic_desc_size dvpp_set_pic_desc_format dvpp_set_pic_desc_width dvpp_set_pic_desc_height
        dvpp_set_pic_desc_width_stride dvpp_set_pic_desc_height_stride dvpp_get_pic_desc_data
        dvpp_get_pic_desc_size dvpp_get_pic_desc_width dvpp_get_pic_desc_height dvpp_get_pic_desc_ret_code
        dvpp_create_batch_pic_desc dvpp_destroy_batch_pic_desc dvpp_get_pic_desc dvpp_create_stream_desc
        dvpp_destroy_stream_desc dvpp_set_stream_desc_data dvpp_set_stream_desc_size
        dvpp_set_stream_desc_format dvpp_set_stream_desc_timestamp dvpp_set_stream_desc_ret_code
        dvpp_set_stream_desc_eos dvpp_get_stream_desc_data dvpp_get_stream_desc_size
        dvpp_get_stream_desc_ret_code dvpp_vpc_resize_async dvpp_vpc_crop_async dvpp_vpc_crop_and_paste_async
        dvpp_vpc_batch_crop_async dvpp_vpc_batch_crop_and_paste_async dvpp_create_roi_config
        dvpp_destroy_roi_config dvpp_create_resize_config dvpp_destroy_resize_config dvpp_jpeg_decode_async
        dvpp_jpeg_get_image_info dvpp_jpeg_predict_dec_size dvpp_jpeg_encode_async dvpp_jpeg_predict_enc_size
        dvpp_create_jpege_config dvpp_destroy_jpege_config dvpp_set_jpege_config_level vdec_create_channel
        vdec_destroy_channel vdec_create_channel_desc vdec_destroy_channel_desc
        vdec_set_channel_desc_channel_id vdec_set_channel_desc_thread_id vdec_set_channel_desc_callback
        vdec_set_channel_desc_entype vdec_set_channel_desc_out_pic_format vdec_set_channel_desc_out_mode
        vdec_get_channel_desc_out_mode vdec_send_frame vdec_create_frame_config vdec_destroy_frame_config
        venc_create_channel venc_destroy_channel venc_send_frame venc_create_channel_desc
        venc_destroy_channel_desc venc_set_channel_desc_callback venc_create_frame_config
        venc_destroy_frame_config venc_set_frame_config_force_i_frame venc_set_frame_config_eos
        venc_get_frame_config_force_i_frame venc_get_frame_config_eos venc_set_channel_desc_thread_id
        venc_set_channel_desc_entype venc_set_channel_desc_pic_format venc_set_channel_desc_pic_width
        venc_set_channel_desc_pic_height venc_set_channel_desc_key_frame_interval
    """,
}

USED: Final = frozenset(
    f"acl.{module}.{name}" if module else f"acl.{name}" for module, names in _NAMES.items() for name in names.split()
)
