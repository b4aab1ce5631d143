"""Exports timm's image models, with random weights, through both of torch's exporters.

    pip install torch timm onnxscript numpy onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_timm.py FOLDER [REGULAR-EXPRESSION]

The expected results are torch's."""

import timm

from torch_case import add, cases, image

for name, size, extra in [
    ("resnet10t", 64, {}), ("resnext26ts", 64, {}), ("legacy_seresnet18", 64, {}),
    ("efficientnet_lite0", 64, {}), ("tf_efficientnetv2_b0", 64, {}), ("mobilenetv4_conv_small", 64, {}), ("mobilenetv4_hybrid_medium", 64, {}),
    ("ghostnetv2_100", 64, {}), ("lcnet_050", 64, {}), ("mobileone_s0", 64, {}), ("repvgg_a0", 64, {}), ("fastvit_t8", 64, {}), ("edgenext_xx_small", 64, {}),
    ("convnext_atto", 64, {}), ("convnextv2_atto", 64, {}), ("nfnet_l0", 64, {}), ("regnety_002", 64, {}), ("gernet_s", 64, {}), ("hardcorenas_a", 64, {}),
    ("vit_tiny_patch16_224", 64, {"img_size": 64}), ("vit_base_patch16_siglip_224", 64, {"img_size": 64, "depth": 2}), ("deit3_small_patch16_224", 64, {"img_size": 64, "depth": 2}),
    ("eva02_tiny_patch14_224", 56, {"img_size": 56, "depth": 3}), ("beitv2_base_patch16_224", 64, {"img_size": 64, "depth": 2}), ("xcit_nano_12_p16_224", 64, {}),
    ("cait_xxs24_224", 64, {"img_size": 64, "depth": 4}), ("swinv2_tiny_window8_256", 64, {"img_size": 64, "window_size": 4}), ("maxvit_rmlp_pico_rw_256", 64, {"img_size": 64}),
    ("coatnet_nano_rw_224", 64, {"img_size": 64}), ("mixer_s32_224", 64, {"img_size": 64}), ("resmlp_12_224", 64, {"img_size": 64}), ("gmlp_ti16_224", 64, {"img_size": 64, "num_blocks": 4}),
    ("poolformerv2_s12", 64, {}), ("efficientformer_l1", 224, {}), ("mobilevit_xxs", 64, {}), ("mobilevitv2_050", 64, {}), ("levit_128s", 224, {}), ("tiny_vit_5m_224", 224, {}),
    ("efficientvit_b0", 64, {}), ("efficientvit_m0", 224, {}), ("repvit_m0_9", 64, {}), ("inception_next_atto", 64, {}), ("hgnetv2_b0", 64, {}), ("focalnet_tiny_srf", 64, {}),
    ("volo_d1_224", 64, {"img_size": 64}), ("davit_tiny", 64, {}), ("mvitv2_tiny", 64, {"img_size": 64}), ("twins_svt_small", 64, {"img_size": 64}), ("pvt_v2_b0", 64, {}), ("hrnet_w18_small", 64, {}),
    ("dla34", 64, {}), ("selecsls42", 64, {}), ("rexnet_100", 64, {}), ("skresnet18", 64, {}), ("botnet26t_256", 256, {}), ("lambda_resnet26t", 64, {}), ("halonet26t", 64, {}), ("vovnet39a", 64, {}),
]:
    add("timm", name, lambda n=name, e=extra: timm.create_model(n, pretrained=False, num_classes=5, **e), {"image": image(1, 3, size, size)}, f"timm {timm.__version__}")
cases.close()
