"""Every public name of pyACL, and what the ones that are not simulated yet return.

Names, argument counts and result shapes are facts of the public wrapper ("hicann/runtime", python/pyACL). An entry is
``name:arguments:shape``; ``*`` arguments are not counted, ``?`` is one optional argument. The shape is what comes
back on failure: ``r`` the return code, ``0`` a number or handle, ``f`` a float, ``s`` a text, ``d`` a dict, ``l`` a
list, ``N`` None.
"""

from __future__ import annotations

from typing import Any, Final

from acl import errors
from ascend_sim.runtime.host import host_thread

_TABLE: Final[dict[str, str]] = {
    "": """
        init:?:r finalize:0:r finalize_reference:0:0r get_version:0:000r get_soc_name:0:N
        get_cann_attribute_list:0:l0r
        get_cann_attribute:1:0r get_device_capability:2:0r get_cann_version:1:dr get_version_str:1:sr app_log:2:N
        get_recent_err_msg:0:N float16_to_float:1:f float_to_float16:1:0 create_data_buffer:2:0
        destroy_data_buffer:1:r
        get_data_buffer_addr:1:0 get_data_buffer_size:1:0 get_data_buffer_size_v2:1:0 update_data_buffer:3:r
        data_type_size:1:0 create_tensor_desc:3:0 destroy_tensor_desc:1:N get_tensor_desc_type:1:0
        get_tensor_desc_format:1:0 get_tensor_desc_size:1:0 get_tensor_desc_element_count:1:0
        get_tensor_desc_num_dims:1:0 get_tensor_desc_dim:2:0 get_tensor_desc_dim_v2:2:0r
        get_tensor_desc_dim_range:3:Nr
        get_tensor_desc_name:1:s set_tensor_desc_name:2:N get_tensor_desc_address:1:0 get_tensor_desc_by_index:2:0
        trans_tensor_desc_format:2:0r set_tensor_storage_format:2:r set_tensor_storage_shape:2:r set_tensor_format:2:r
        set_tensor_shape:2:r set_tensor_origin_format:2:r set_tensor_origin_shape:2:r set_tensor_dynamic_input:2:r
        set_tensor_shape_range:2:r set_tensor_value_range:2:r set_tensor_place_ment:2:r set_tensor_const:3:r
    """,
    "util": """
        numpy_to_ptr:1:0 numpy_contiguous_to_ptr:1:00 ptr_to_numpy:3:0 bytes_to_ptr:1:0 ptr_to_bytes:2:0
        start_thread:2:0r stop_thread:1:r
    """,
    "rt": """
        set_device:1:r reset_device:1:r reset_device_force:1:r get_device:0:0r set_device_sat_mode:1:r
        get_device_sat_mode:0:0r get_run_mode:0:0r set_ts_device:1:r get_device_count:0:0r
        get_device_utilization_rate:1:dr query_device_status:1:0r device_task_abort:2:r get_device_info:2:0r
        device_get_stream_priority_range:0:00r get_device_capability:2:0r get_device_res_limit:2:0r
        set_device_res_limit:3:r reset_device_res_limit:1:r get_devices_topo:2:0r get_logic_dev_id_by_user_dev_id:1:0r
        get_user_dev_id_by_logic_dev_id:1:0r get_logic_dev_id_by_phy_dev_id:1:0r get_phy_dev_id_by_logic_dev_id:1:0r
        device_get_uuid:1:dr device_peer_access_status:2:0r device_can_access_peer:2:0r device_enable_peer_access:2:r
        device_disable_peer_access:1:r device_get_bare_tgid:0:0r set_sys_param_opt:2:r get_sys_param_opt:1:0r
        synchronize_device:0:r synchronize_device_with_timeout:1:r get_overflow_status:3:r reset_overflow_status:1:r
        create_context:1:0r destroy_context:1:r set_context:1:r get_context:0:0r ctx_get_current_default_stream:0:0r
        ctx_set_sys_param_opt:2:r ctx_get_sys_param_opt:1:0r get_primary_ctx_state:1:00r create_stream:0:0r
        create_stream_with_config:2:0r destroy_stream:1:r destroy_stream_force:1:r set_stream_overflow_switch:2:r
        get_stream_overflow_switch:1:0r set_stream_failure_mode:2:r stream_query:1:0r stream_abort:1:r
        stream_get_id:1:0r
        get_stream_available_num:0:0r set_stream_attribute:3:r get_stream_attribute:2:dr get_stream_res_limit:2:0r
        set_stream_res_limit:3:r reset_stream_res_limit:1:r use_stream_res_in_current_thread:1:r
        unuse_stream_res_in_current_thread:1:r get_res_in_current_thread:1:0r synchronize_stream:1:r
        synchronize_stream_with_timeout:2:r create_event:0:0r create_event_with_flag:1:0r
        create_event_ex_with_flag:1:0r
        destroy_event:1:r record_event:2:r reset_event:2:r query_event:1:0r query_event_status:1:0r
        query_event_wait_status:1:0r synchronize_event:1:r synchronize_event_with_timeout:2:r event_elapsed_time:2:fr
        event_get_timestamp:1:0r get_event_id:1:0r get_event_avail_num:0:0r stream_wait_event:2:r
        set_op_wait_timeout:1:r
        create_notify:1:0r destroy_notify:1:r record_notify:2:r wait_and_reset_notify:3:r get_notify_id:1:0r
        notify_batch_reset:1:r notify_get_export_key:3:sr notify_set_import_pid:2:r notify_import_by_key:2:0r
        subscribe_report:2:r unsubscribe_report:2:r process_report:1:r launch_callback:4:r
        set_exception_info_callback:?:r get_error_code_from_exception_info:1:0 get_task_id_from_exception_info:1:0
        get_stream_id_from_exception_info:1:0 get_thread_id_from_exception_info:1:0
        get_device_id_from_exception_info:1:0
        get_thread_last_task_id:0:0r reduce_async:7:r set_op_execute_time_out:1:r set_op_execute_timeout_v2:1:0r
        get_op_timeout_interval:0:0r get_op_execute_timeout:0:0r peek_at_last_error:1:r get_last_error:1:r malloc:2:0r
        malloc_align32:2:0r malloc_cached:2:0r malloc_with_cfg:3:0r malloc_for_task_scheduler:3:0r free:1:r
        mem_flush:2:r
        mem_invalidate:2:r malloc_host:1:0r malloc_host_with_cfg:2:0r free_host:1:r memcpy:5:r memcpy_async:6:r
        memcpy_async_with_condition:6:r memcpy2d:7:r memcpy2d_async:8:r get_memcpy_desc_size:1:0r set_memcpy_desc:6:0r
        memcpy_async_with_desc:3:r memset:4:r memset_async:5:r get_mem_info:1:00r reserve_mem_address:4:0r
        release_mem_address:1:r malloc_physical:3:0r free_physical:1:r map_mem:5:r unmap_mem:1:r
        mem_export_to_shareable_handle:3:0r mem_set_pid_to_shareable_handle:2:r mem_import_from_shareable_handle:2:0r
        mem_get_allocation_granularity:2:0r pointer_get_attributes:1:dr host_register:3:0r host_register_v2:3:r
        host_unregister:1:r host_get_device_pointer:2:0r cmo_async:4:r ipc_mem_get_export_key:4:sr
        ipc_mem_set_import_pid:2:r ipc_mem_import_by_key:2:0r ipc_mem_close:1:r value_write:4:r value_wait:4:r
        get_mem_uce_info:2:lr mem_uce_repair:2:r allocator_create_desc:0:0 allocator_destroy_desc:1:r
        allocator_set_obj_to_desc:2:r allocator_set_alloc_func_to_desc:2:r allocator_set_free_func_to_desc:2:r
        allocator_set_alloc_advise_func_to_desc:2:r allocator_set_get_addr_from_block_func_to_desc:2:r
        allocator_register:2:r allocator_unregister:1:r binary_load_from_file:2:0r binary_load_from_data:3:0r
        get_function_addr:1:00r get_function_name:2:sr register_cpu_func:3:0r create_binary:2:0 destroy_binary:1:r
        binary_load:1:0r binary_unload:1:r binary_get_function:2:0r launch_kernel:5:r launch_kernel_with_config:6:r
        kernel_args_init:1:0r kernel_args_init_by_user_mem:4:r kernel_args_get_mem_size:2:0r
        kernel_args_get_handle_mem_size:1:0r kernel_args_append:3:0r kernel_args_append_place_holder:1:0r
        kernel_args_get_place_holder_buffer:3:0r kernel_args_para_update:4:r kernel_args_finalize:1:r
        launch_kernel_with_host_args:8:r device_set_limit:2:r device_get_limit:1:0r set_group:1:r get_group_count:0:0r
        create_group_info:0:0 destroy_group_info:1:r get_all_group_info:1:r get_group_info_detail:3:0r
    """,
    "mdl": """
        load_from_file:1:0r load_from_mem:2:0r load_from_file_with_mem:5:0r load_from_mem_with_mem:6:0r
        load_from_file_with_q:5:0r load_from_mem_with_q:6:0r load_with_config:1:0r create_config_handle:0:0
        destroy_config_handle:1:r set_config_opt:3:r unload:1:r query_size:1:00r query_size_from_mem:2:00r
        bundle_load_from_file:1:0r bundle_load_from_mem:2:0r bundle_unload:1:r bundle_get_model_id:2:0r
        bundle_get_model_num:1:0r execute:3:r execute_async:4:r execute_v2:5:r create_exec_config_handle:0:0
        destroy_exec_config_handle:1:r set_exec_config_opt:3:r create_and_get_op_desc:4:s0000r create_dataset:0:0
        destroy_dataset:1:r add_dataset_buffer:2:0r get_dataset_buffer:2:0 get_dataset_num_buffers:1:0
        set_dataset_tensor_desc:3:0r get_dataset_tensor_desc:2:0 create_desc:0:0 destroy_desc:1:r get_desc:2:r
        get_desc_from_file:2:r get_desc_from_mem:3:r get_num_inputs:1:0 get_num_outputs:1:0
        get_input_size_by_index:2:0
        get_output_size_by_index:2:0 get_input_dims:2:dr get_input_dims_v2:2:dr get_output_dims:2:dr
        get_cur_output_dims:2:dr get_input_dims_range:2:dr get_input_name_by_index:2:s get_output_name_by_index:2:s
        get_input_format:2:0 get_output_format:2:0 get_input_data_type:2:0 get_output_data_type:2:0
        get_input_index_by_name:2:0r get_output_index_by_name:2:0r get_tensor_real_name:2:N get_op_attr:3:s
        set_dynamic_batch_size:4:r set_dynamic_hw_size:5:r set_input_dynamic_dims:4:r get_dynamic_batch:1:dr
        get_dynamic_hw:2:dr get_input_dynamic_gear_count:2:0r get_input_dynamic_dims:3:lr create_aipp:1:0
        destroy_aipp:1:r set_aipp_input_format:2:r set_aipp_csc_params:17:r set_aipp_rbuv_swap_switch:2:r
        set_aipp_ax_swap_switch:2:r set_aipp_src_image_size:3:r set_aipp_scf_params:7:r set_aipp_crop_params:7:r
        set_aipp_padding_params:7:r set_aipp_dtc_pixel_mean:6:r set_aipp_dtc_pixel_min:6:r set_aipp_pixel_var_reci:6:r
        set_input_aipp:4:r set_aipp_by_input_index:4:r get_aipp_type:2:00r get_aipp_data_size:1:0r
        get_first_aipp_info:2:Nr init_dump:0:r set_dump:?:r finalize_dump:0:r dump_reg_callback:2:r
        dump_unreg_callback:0:N
    """,
    "op": """
        set_model_dir:1:r load:2:r execute:7:r execute_v2:7:r execute_with_handle:4:r create_handle:4:0r
        destroy_handle:1:N infer_shape:6:r update_params:4:r set_max_op_queue_num:1:r cast:6:r
        create_handle_for_cast:3:0r create_attr:0:0 destroy_attr:1:N set_attr_bool:3:r set_attr_int:3:r
        set_attr_float:3:r set_attr_string:3:r set_attr_data_type:3:0r set_attr_list_bool:3:r set_attr_list_int:3:r
        set_attr_list_float:3:r set_attr_list_string:3:r set_attr_list_list_int:3:r set_attr_list_data_type:3:0r
        start_dump_args:2:r stop_dump_args:1:r register_compile_func:2:r unregister_compile_func:1:r create_kernel:7:r
        set_kernel_args:5:r set_kernel_workspace_sizes:3:r compile:*:r compile_and_execute:*:r
    """,
    "blas": """
        gemv_ex:16:r create_handle_for_gemv_ex:7:0r hgemv:13:r create_handle_for_hgemv:4:0r s8gemv:13:r
        create_handle_for_s8gemv:4:0r gemm_ex:19:r create_handle_for_gemm_ex:10:0r hgemm:16:r
        create_handle_for_hgemm:7:0r s8gemm:16:r create_handle_for_s8gemm:7:0r
    """,
    "prof": """
        init:1:r finalize:0:r create_config:4:0 destroy_config:1:r set_config:2:r start:1:r stop:1:r
        create_subscribe_config:3:0 destroy_subscribe_config:1:r model_subscribe:2:r model_un_subscribe:1:r
        model_unsubscribe:1:r get_op_desc_size:0:0r get_op_num:2:0r get_op_type:4:sr get_op_name:4:sr
        get_op_type_v2:3:Nr
        get_op_name_v2:3:Nr get_op_type_len:3:0r get_op_name_len:3:0r get_op_start:3:0 get_op_end:3:0
        get_op_duration:3:0
        get_model_id:3:0 create_step_info:0:0 destroy_step_info:1:N get_step_timestamp:3:r create_stamp:0:0
        destroy_stamp:1:N set_stamp_trace_message:3:r push:1:r pop:0:r mark:1:r mark_ex:2:r range_start:1:0r
        range_stop:1:r
    """,
    "media": """
        dvpp_malloc:1:0r dvpp_malloc_with_cfg:2:0r dvpp_free:1:r dvpp_create_channel:1:r dvpp_destroy_channel:1:r
        dvpp_create_channel_desc:0:0 dvpp_destroy_channel_desc:1:r dvpp_set_channel_desc_param:3:0r
        dvpp_get_channel_desc_param:2:0r dvpp_get_channel_desc_channel_id:1:0 dvpp_set_channel_desc_mode:2:r
        dvpp_create_pic_desc:0:0 dvpp_destroy_pic_desc:1:r dvpp_set_pic_desc_data:2:r dvpp_set_pic_desc_size:2:r
        dvpp_set_pic_desc_format:2:r dvpp_set_pic_desc_width:2:r dvpp_set_pic_desc_height:2:r
        dvpp_set_pic_desc_width_stride:2:r dvpp_set_pic_desc_height_stride:2:r dvpp_set_pic_desc_ret_code:2:r
        dvpp_get_pic_desc_data:1:0 dvpp_get_pic_desc_size:1:0 dvpp_get_pic_desc_format:1:0 dvpp_get_pic_desc_width:1:0
        dvpp_get_pic_desc_height:1:0 dvpp_get_pic_desc_width_stride:1:0 dvpp_get_pic_desc_height_stride:1:0
        dvpp_get_pic_desc_ret_code:1:0 dvpp_create_batch_pic_desc:1:0 dvpp_destroy_batch_pic_desc:1:r
        dvpp_get_pic_desc:2:0 dvpp_create_stream_desc:0:0 dvpp_destroy_stream_desc:1:r dvpp_set_stream_desc_data:2:r
        dvpp_set_stream_desc_size:2:r dvpp_set_stream_desc_format:2:r dvpp_set_stream_desc_timestamp:2:r
        dvpp_set_stream_desc_ret_code:2:r dvpp_set_stream_desc_eos:2:r dvpp_get_stream_desc_data:1:0
        dvpp_get_stream_desc_size:1:0 dvpp_get_stream_desc_format:1:0 dvpp_get_stream_desc_timestamp:1:0
        dvpp_get_stream_desc_ret_code:1:0 dvpp_get_stream_desc_eos:1:0 dvpp_vpc_resize_async:5:r
        dvpp_vpc_crop_async:5:r
        dvpp_vpc_crop_and_paste_async:6:r dvpp_vpc_batch_crop_async:6:0r dvpp_vpc_batch_crop_and_paste_async:7:0r
        dvpp_vpc_crop_resize_async:6:r dvpp_vpc_batch_crop_resize_async:7:0r dvpp_vpc_crop_resize_paste_async:7:r
        dvpp_vpc_batch_crop_resize_paste_async:8:0r dvpp_vpc_batch_crop_resize_make_border_async:8:0r
        dvpp_vpc_convert_color_async:4:r dvpp_vpc_pyr_down_async:5:r dvpp_vpc_equalize_hist_async:5:r
        dvpp_vpc_make_border_async:5:r dvpp_vpc_calc_hist_async:5:r dvpp_create_roi_config:4:0
        dvpp_destroy_roi_config:1:r dvpp_set_roi_config:5:r dvpp_set_roi_config_left:2:r dvpp_set_roi_config_right:2:r
        dvpp_set_roi_config_top:2:r dvpp_set_roi_config_bottom:2:r dvpp_create_resize_config:0:0
        dvpp_destroy_resize_config:1:r dvpp_set_resize_config_interpolation:2:r
        dvpp_get_resize_config_interpolation:1:0
        dvpp_create_border_config:0:0 dvpp_destroy_border_config:1:r dvpp_set_border_config_value:3:r
        dvpp_set_border_config_border_type:2:r dvpp_set_border_config_top:2:r dvpp_set_border_config_bottom:2:r
        dvpp_set_border_config_left:2:r dvpp_set_border_config_right:2:r dvpp_get_border_config_value:2:0
        dvpp_get_border_config_border_type:1:0 dvpp_get_border_config_top:1:0 dvpp_get_border_config_bottom:1:0
        dvpp_get_border_config_left:1:0 dvpp_get_border_config_right:1:0 dvpp_create_hist:0:0 dvpp_destroy_hist:1:r
        dvpp_get_hist_dims:1:0 dvpp_get_hist_data:2:00r dvpp_get_hist_ret_code:1:0 dvpp_clear_hist:1:r
        dvpp_create_lut_map:0:0 dvpp_destroy_lut_map:1:r dvpp_get_lut_map_dims:1:0 dvpp_get_lut_map_data:2:00r
        dvpp_jpeg_decode_async:5:r dvpp_jpeg_get_image_info:2:000r dvpp_jpeg_get_image_info_v2:2:0000r
        dvpp_jpeg_predict_dec_size:3:0r dvpp_jpeg_encode_async:6:r dvpp_jpeg_predict_enc_size:2:0r
        dvpp_create_jpege_config:0:0 dvpp_destroy_jpege_config:1:r dvpp_set_jpege_config_level:2:r
        dvpp_get_jpege_config_level:1:0 dvpp_png_decode_async:5:r dvpp_png_get_image_info:2:00r
        dvpp_png_predict_dec_size:3:0r vdec_create_channel:1:r vdec_destroy_channel:1:r vdec_create_channel_desc:0:0
        vdec_destroy_channel_desc:1:r vdec_set_channel_desc_channel_id:2:r vdec_set_channel_desc_thread_id:2:r
        vdec_set_channel_desc_callback:2:r vdec_set_channel_desc_entype:2:r vdec_set_channel_desc_out_pic_format:2:r
        vdec_set_channel_desc_out_pic_width:2:r vdec_set_channel_desc_out_pic_height:2:r
        vdec_set_channel_desc_ref_frame_num:2:r vdec_set_channel_desc_out_mode:2:r vdec_set_channel_desc_bit_depth:2:r
        vdec_set_channel_desc_param:3:0r vdec_get_channel_desc_channel_id:1:0 vdec_get_channel_desc_thread_id:1:0
        vdec_get_channel_desc_callback:1:0 vdec_get_channel_desc_entype:1:0 vdec_get_channel_desc_out_pic_format:1:0
        vdec_get_channel_desc_out_pic_width:1:0 vdec_get_channel_desc_out_pic_height:1:0
        vdec_get_channel_desc_ref_frame_num:1:0 vdec_get_channel_desc_out_mode:1:0 vdec_get_channel_desc_bit_depth:1:0
        vdec_get_channel_desc_param:2:0r vdec_send_frame:5:r vdec_send_skipped_frame:4:r vdec_create_frame_config:0:0
        vdec_destroy_frame_config:1:r venc_create_channel:1:r venc_destroy_channel:1:r venc_send_frame:5:r
        venc_create_channel_desc:0:0 venc_destroy_channel_desc:1:r venc_set_channel_desc_callback:2:r
        venc_create_frame_config:0:0 venc_destroy_frame_config:1:r venc_set_frame_config_force_i_frame:2:r
        venc_set_frame_config_eos:2:r venc_get_frame_config_force_i_frame:1:0 venc_get_frame_config_eos:1:0
        venc_set_channel_desc_thread_id:2:r venc_set_channel_desc_entype:2:r venc_set_channel_desc_pic_format:2:r
        venc_set_channel_desc_pic_width:2:r venc_set_channel_desc_pic_height:2:r
        venc_set_channel_desc_key_frame_interval:2:r venc_set_channel_desc_buf_addr:2:r
        venc_set_channel_desc_buf_size:2:r venc_set_channel_desc_max_bit_rate:2:r venc_set_channel_desc_rc_mode:2:r
        venc_set_channel_desc_src_rate:2:r venc_get_channel_desc_channel_id:1:0 venc_get_channel_desc_thread_id:1:0
        venc_get_channel_desc_callback:1:0 venc_get_channel_desc_entype:1:0 venc_get_channel_desc_pic_format:1:0
        venc_get_channel_desc_pic_width:1:0 venc_get_channel_desc_pic_height:1:0
        venc_get_channel_desc_key_frame_interval:1:0 venc_get_channel_desc_buf_addr:1:0
        venc_get_channel_desc_buf_size:1:0 venc_get_channel_desc_max_bit_rate:1:0 venc_get_channel_desc_rc_mode:1:0
        venc_get_channel_desc_src_rate:1:0 venc_set_channel_desc_param:3:0r venc_get_channel_desc_param:2:0r
    """,
    "fv": """
        create_init_para:*:r destory_init_para:*:r destroy_init_para:*:r set_1n_top_num:*:r set_nm_top_num:*:r
        init:*:r
        release:*:r repo_add:*:r repo_del:*:r create_feature_info:*:r destroy_feature_info:*:r create_repo_range:*:r
        destroy_repo_range:*:r delete:*:r modify:*:r create_query_table:*:r destroy_query_table:*:r
        create_search_input:*:r destroy_search_input:*:r create_search_result:*:r destroy_search_result:*:r search:*:r
    """,
    "himpi": """
        sys_init:*:r sys_exit:*:r dvpp_malloc:*:r dvpp_free:*:r dvpp_get_version:*:r sys_create_epoll:*:r
        sys_ctl_epoll:*:r sys_wait_epoll:*:r sys_close_epoll:*:r sys_set_chn_csc_matrix:*:r sys_get_chn_csc_matrix:*:r
        sys_get_image_align_info:*:r vdec_create_chn:*:r vdec_destroy_chn:*:r vdec_get_chn_attr:*:r
        vdec_set_chn_attr:*:r
        vdec_start_recv_stream:*:r vdec_stop_recv_stream:*:r vdec_query_status:*:r vdec_reset_chn:*:r
        vdec_set_chn_param:*:r vdec_get_chn_param:*:r vdec_set_protocol_param:*:r vdec_get_protocol_param:*:r
        vdec_send_stream:*:r vdec_get_frame:*:r vdec_release_frame:*:r vdec_get_fd:*:r vdec_close_fd:*:r
        vdec_get_pic_buf_size:*:r vdec_get_tmv_buf_size:*:r dvpp_get_image_info:*:r vdec_set_jpegd_precision_mode:*:r
        vdec_get_jpegd_output_info:*:r vdec_set_display_mode:*:r vdec_get_display_mode:*:r venc_create_chn:*:r
        venc_destroy_chn:*:r venc_start_chn:*:r venc_stop_chn:*:r venc_query_status:*:r venc_get_stream:*:r
        venc_release_stream:*:r venc_send_frame:*:r venc_send_frame_ex:*:r venc_set_mod_param:*:r
        venc_get_mod_param:*:r
        venc_request_idr:*:r venc_get_fd:*:r venc_close_fd:*:r venc_set_jpeg_param:*:r venc_get_jpeg_param:*:r
        venc_set_chn_param:*:r venc_get_chn_param:*:r venc_set_chn_attr:*:r venc_get_chn_attr:*:r
        venc_set_scene_mode:*:r
        venc_set_rc_param:*:r venc_get_rc_param:*:r venc_set_jpeg_huffman_param:*:r venc_get_jpeg_huffman_param:*:r
        venc_compact_jpeg_tables:*:r venc_send_jpege_frame:*:r venc_get_jpege_predicted_size:*:r
        venc_get_scene_mode:*:r
        venc_set_cu_pred:*:r venc_get_cu_pred:*:r venc_set_h264_vui:*:r venc_get_h264_vui:*:r venc_set_h265_vui:*:r
        venc_get_h265_vui:*:r venc_set_intra_refresh:*:r venc_get_intra_refresh:*:r venc_set_ref_param:*:r
        venc_get_ref_param:*:r venc_set_roi_attr:*:r venc_get_roi_attr:*:r venc_set_slice_split:*:r
        venc_get_slice_split:*:r venc_get_qpmap_stride:*:r venc_get_qpmap_size:*:r venc_set_streamcopy_param:*:r
        venc_get_streamcopy_param:*:r vpc_create_chn:*:r vpc_destroy_chn:*:r vpc_resize:*:r vpc_crop:*:r
        vpc_crop_resize:*:r vpc_crop_resize_paste:*:r vpc_convert_color:*:r vpc_convert_color_v2:*:r
        vpc_convert_color_to_yuv420:*:r vpc_copy_make_border:*:r vpc_pyrdown:*:r vpc_calc_hist:*:r
        vpc_calc_hist_v2:*:r
        vpc_equalize_hist:*:r vpc_get_process_result:*:r vpc_sys_create_chn:*:r vpc_crop_resize_make_border:*:r
        vpc_batch_crop_resize_paste:*:r vpc_batch_crop_resize_make_border:*:r vpc_crop_resize_resize_paste:*:r
        vpc_dilate:*:r vpc_draw_cover:*:r vpc_draw_line:*:r vpc_draw_mosaic:*:r vpc_draw_osd:*:r vpc_blur:*:r
        vpc_gaussian_blur:*:r vpc_erode:*:r vpc_filter2d:*:r vpc_flip:*:r vpc_get_affine_lut:*:r
        vpc_get_lut_mem_size:*:r
        vpc_get_affine_transform:*:r vpc_get_perspective_lut:*:r vpc_get_remap_lut:*:r vpc_get_rotation_matrix:*:r
        vpc_lut_remap:*:r vpc_set_chn_workspace:*:r vpc_median_blur:*:r vpc_rotate:*:r vpc_warp_affine:*:r
        vpc_set_chn_opt_attr:*:r pngd_create_chn:*:r pngd_destroy_chn:*:r pngd_send_stream:*:r pngd_get_image_data:*:r
        png_get_image_info:*:r
    """,
}


def table(module: str) -> dict[str, tuple[str, str]]:
    """name -> (arguments, failure shape) of a sub-module ("" is the top level)."""
    entries = (entry.split(":") for entry in _TABLE[module].split())
    return {name: (arguments, shape) for name, arguments, shape in entries}


def modules() -> tuple[str, ...]:
    return tuple(_TABLE)


_VALUES: Final[dict[str, Any]] = {"0": 0, "f": 0.0, "s": "", "N": None}


def failure(shape: str, ret: int) -> Any:
    """The result of a failing call of this shape."""
    made: list[Any] = [{} if c == "d" else [] if c == "l" else ret if c == "r" else _VALUES[c] for c in shape]
    return made[0] if len(made) == 1 else tuple(made)


def _unsupported(module: str, name: str, arguments: str, shape: str) -> Any:
    full = ".".join(("acl", module, name)) if module else f"acl.{name}"

    def call(*args: Any) -> Any:
        if arguments.isdigit() and arguments != "0" and len(args) != int(arguments):
            raise TypeError(f"{name}() takes {arguments} positional arguments, {len(args)} given")
        host_thread().call = full
        return failure(shape, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"{full} is not simulated."))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{full}: part of pyACL that is not simulated; returns 207000 in its documented shape."
    call.acl_name = full  # type: ignore[attr-defined]
    call.unsupported = True  # type: ignore[attr-defined]
    return call


def complete(namespace: dict[str, Any], module: str) -> list[str]:
    """Give a module every name it lacks; returns all its public names, sorted."""
    entries = table(module)
    for name, (arguments, shape) in entries.items():
        if not hasattr(namespace.get(name), "acl_name"):
            namespace[name] = _unsupported(module, name, arguments, shape)
    return sorted(entries)
