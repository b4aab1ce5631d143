"""Exports torchvision's models and layers of torch, with random weights, through both
of torch's exporters.

    pip install torch torchvision onnxscript numpy onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_torch.py FOLDER [REGULAR-EXPRESSION]

The expected results are torch's."""

import contextlib
from unittest import mock

import torch
import torchvision
from torch import nn

from torch_case import add, cases, image

# --- torchvision -------------------------------------------------------------------
tv = torchvision.models
VISION = f"torchvision {torchvision.__version__.split('+')[0]}"
for name, size in [
    ("resnet18", 64), ("resnext50_32x4d", 64), ("mobilenet_v2", 64), ("mobilenet_v3_small", 64),
    ("efficientnet_b0", 64), ("efficientnet_v2_s", 64), ("squeezenet1_0", 64), ("squeezenet1_1", 64), ("shufflenet_v2_x0_5", 64),
    ("densenet121", 64), ("mnasnet0_5", 64), ("regnet_y_400mf", 64), ("regnet_x_400mf", 64), ("googlenet", 64), ("inception_v3", 96),
    ("alexnet", 80), ("convnext_tiny", 64), ("swin_t", 64), ("swin_v2_t", 64), ("maxvit_t", 224),
]:
    extra = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    add("torchvision_classification", name, lambda n=name, e=extra: getattr(tv, n)(weights=None, num_classes=10, **e), {"image": image(2 if size < 200 else 1, 3, size, size)}, VISION)
add("torchvision_classification", "vit_small", lambda: tv.VisionTransformer(32, 8, 3, 4, 64, 128, num_classes=10), {"image": image(2, 3, 32, 32)}, VISION)

for name in ["fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]:
    extra = {} if name.startswith("lraspp") else {"aux_loss": False}
    add("torchvision_segmentation", name, lambda n=name, e=extra: getattr(tv.segmentation, n)(weights=None, weights_backbone=None, num_classes=5, **e), {"image": image(1, 3, 65, 65)}, VISION)


class Detector(nn.Module):
    """Takes one image. What tells classes and boxes apart is spread as that of a trained
    detector: fresh weights give scores that are almost equal, or that saturate, and
    both leave the order of the boxes to rounding."""

    def __init__(self, model, image):
        super().__init__()
        self.model = model
        hooks = [m.register_forward_pre_hook(self.normalize) for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
        with torch.no_grad():
            model.eval()([image])
        for hook in hooks:
            hook.remove()
        for part, _ in self.last_layers():
            part.seen = []
            part.hook = part.register_forward_hook(lambda m, i, o: m.seen.append(o.detach()))
        for part, spread in self.last_layers():  # from the first to the last: each needs those before it
            with torch.no_grad():
                model([image])
                channels = torch.cat([o.transpose(0, 1).flatten(1) if o.dim() == 4 else o.T for o in part.seen], 1)
                few = channels.shape[1] < 8
                scale = spread / (channels.std() if few else channels.std(1)).clamp_min(1e-12)
                middle = channels.mean() if few else channels.mean(1)
                shape = [1] * part.weight.dim()
                shape[1 if isinstance(part, nn.ConvTranspose2d) else 0] = -1
                part.weight.mul_(scale.expand(part.out_channels if hasattr(part, "out_channels") else part.out_features).reshape(shape))
                if part.bias is None:
                    continue
                part.bias.sub_(middle).mul_(scale)
            for other, _ in self.last_layers():
                other.seen.clear()
        for part, _ in self.last_layers():
            part.hook.remove()
            del part.hook, part.seen

    @staticmethod
    def normalize(m, inputs):
        """Gives a batch normalization the statistics of its input."""
        x = inputs[0].transpose(0, 1).flatten(1)
        if x.shape[1] >= 8:  # the last levels of a pyramid are single pixels
            m.running_mean, m.running_var = x.mean(1), x.var(1)

    def last_layers(self):
        """The layers that give scores and boxes, with the standard deviation that each
        of their channels gets."""
        m = self.model
        roots = [(m.rpn.head.cls_logits, 2.0), (m.rpn.head.bbox_pred, 0.3)] if hasattr(m, "rpn") else []
        if hasattr(m, "roi_heads"):
            h = m.roi_heads
            roots += [(h.box_predictor.cls_score, 2.0), (h.box_predictor.bbox_pred, 1.0)]
            roots += [(h.mask_predictor.mask_fcn_logits, 2.0)] if h.mask_predictor else []
            roots += [(h.keypoint_predictor.kps_score_lowres, 2.0)] if h.keypoint_predictor else []
        else:
            heads = m.head.classification_head, m.head.regression_head
            for head, spread in zip(heads, (1.5, 0.3)):
                if hasattr(head, "module_list"):
                    roots += [(b[-1] if isinstance(b, nn.Sequential) else b, spread) for b in head.module_list]
                else:
                    roots += [(getattr(head, n), spread) for n in ("cls_logits", "bbox_reg", "bbox_ctrness") if hasattr(head, n)]
        return roots

    def forward(self, image):
        return self.model([image])[0]


def nms(boxes, scores, idxs, iou_threshold):
    far = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).amax(0) + 1
    return torchvision.ops.nms(boxes + (idxs.to(boxes) * far)[:, None], scores, iou_threshold)


def roi_align(features, boxes, output_size, sampling_ratio, scales, mapper):
    rois, levels = torchvision.ops.poolers._convert_to_roi_format(boxes), mapper(boxes)
    of = [torchvision.ops.roi_align(f, rois, output_size, s, sampling_ratio) for f, s in zip(features, scales)]
    return sum(torch.where((levels == i)[:, None, None, None], r, 0) for i, r in enumerate(of))


@contextlib.contextmanager
def unbranched():
    """torch.export refuses Python's branches on sizes that data decide, which
    torchvision has for speed and for empty results: this computes the same without."""
    with mock.patch.object(torchvision.ops.boxes, "batched_nms", nms), mock.patch.object(torchvision.ops.poolers, "_multiscale_roi_align", roi_align):
        yield


SMALL_IMAGE = {"min_size": 64, "max_size": 64}
FEW = {"detections_per_img": 20}
REGIONS = SMALL_IMAGE | {"box_detections_per_img": 20, "rpn_post_nms_top_n_test": 60}
for name, extra in [
    ("ssdlite320_mobilenet_v3_large", FEW), ("ssd300_vgg16", FEW), ("fasterrcnn_mobilenet_v3_large_320_fpn", REGIONS | {"min_size": 96, "max_size": 96}),
    ("fasterrcnn_resnet50_fpn", REGIONS), ("fasterrcnn_resnet50_fpn_v2", REGIONS), ("retinanet_resnet50_fpn", SMALL_IMAGE | FEW), ("retinanet_resnet50_fpn_v2", SMALL_IMAGE | FEW),
    ("fcos_resnet50_fpn", SMALL_IMAGE | FEW), ("maskrcnn_resnet50_fpn", REGIONS), ("keypointrcnn_resnet50_fpn", REGIONS),
]:
    size = extra.get("min_size", 300)
    image = torch.rand(3, size, size, generator=torch.Generator().manual_seed(3))
    classes = 2 if name.startswith("keypoint") else 4
    add("torchvision_detection", name, lambda n=name, e=extra, p=image, c=classes: Detector(getattr(tv.detection, n)(weights=None, weights_backbone=None, num_classes=c, **e), p),
        {"image": image}, VISION, settled=False, patched=unbranched, rtol=1e-3, atol=5e-2 if name.endswith("v2") else 1e-2 if "rcnn" in name else 1e-3)
add("torchvision_video", "r3d_18", lambda: tv.video.r3d_18(weights=None, num_classes=5), {"clip": image(1, 3, 4, 32, 32)}, VISION)
add("torchvision_flow", "raft_small", lambda: tv.optical_flow.raft_small(weights=None), {"a": image(1, 3, 128, 128), "b": image(1, 3, 128, 128).flip(3)}, VISION,
    pick=lambda flows: flows[-1], rtol=1e-2, atol=1e-2)

# --- layers of torch.nn ------------------------------------------------------------------


def layer(name, build, inputs, **kw):
    add("torch_layers", name, build, inputs, f"torch {torch.__version__.split('+')[0]}", **kw)


class LSTMStack(nn.Module):
    def __init__(self, kind, **kw):
        super().__init__()
        self.rnn = kind(6, 8, num_layers=2, batch_first=True, **kw)

    def forward(self, x):
        return self.rnn(x)


SEQUENCE = {"x": image(2, 7, 6)}
layer("lstm", lambda: LSTMStack(nn.LSTM), SEQUENCE)
layer("lstm_bidirectional", lambda: LSTMStack(nn.LSTM, bidirectional=True), SEQUENCE)
layer("gru", lambda: LSTMStack(nn.GRU), SEQUENCE)
layer("gru_bidirectional", lambda: LSTMStack(nn.GRU, bidirectional=True), SEQUENCE)
layer("rnn", lambda: LSTMStack(nn.RNN), SEQUENCE)
layer("transformer_encoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 2), {"x": image(2, 5, 16)})
layer("transformer", lambda: nn.Transformer(16, 4, 1, 1, 24, batch_first=True), {"a": image(2, 5, 16), "b": image(2, 4, 16)})
layer("multihead_attention", lambda: nn.MultiheadAttention(16, 4, batch_first=True), {"q": image(2, 5, 16), "k": image(2, 6, 16), "v": image(2, 6, 16)})
layer("conv_transpose", lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), nn.InstanceNorm2d(4), nn.PReLU(), nn.ConvTranspose2d(4, 2, 3, groups=2, dilation=2)), {"x": image(1, 3, 6, 7)})
layer("pooling", lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.LPPool2d(2, 2), nn.AdaptiveAvgPool2d(1)), {"x": image(1, 3, 21, 23)})
layer("upsampling", lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Upsample(scale_factor=1.5, mode="nearest"), nn.Upsample(size=(11, 13), mode="bicubic", align_corners=True), nn.PixelShuffle(1), nn.ReflectionPad2d(2)), {"x": image(1, 2, 5, 6)})
layer("activations", lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.ELU(), nn.SELU(), nn.CELU(0.7), nn.Softplus(2.0), nn.LeakyReLU(), nn.Hardsigmoid(), nn.LogSoftmax(-1), nn.Softsign(), nn.GLU()), {"x": image(4, 6)})
layer("normalizations", lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm([5, 6]), nn.BatchNorm2d(4), nn.LocalResponseNorm(3), nn.RMSNorm(6)), {"x": image(2, 4, 5, 6)})


class Ops(nn.Module):
    def forward(self, x, i):
        y = torch.einsum("bij,bkj->bik", x, x.flip(1))
        z = torch.cumsum(x, 1).clamp(-1, 2).roll(1, 2)
        top = torch.topk(x, 2, dim=-1)
        g = torch.gather(x, 2, i)
        s = torch.zeros_like(x).scatter_add(2, i, torch.ones_like(g))
        return y, z, top.values, top.indices, g, s, torch.tril(y), x.std(1), torch.logsumexp(x, -1), torch.where(x > 0, x, x.exp()), x.unfold(2, 2, 1), x.argmax(-1), torch.nn.functional.one_hot(i[0, 0], 4), x.sort(-1).values


layer("operators", lambda: Ops(), {"x": image(2, 3, 4), "i": torch.tensor([[[0, 2, 1], [3, 3, 0], [1, 0, 2]]] * 2)})


class Sampling(nn.Module):
    def forward(self, x, theta):
        grid = torch.nn.functional.affine_grid(theta, (1, 2, 5, 6), align_corners=False)
        return torch.nn.functional.grid_sample(x, grid, align_corners=False, padding_mode="border")


layer("grid_sample", lambda: Sampling(), {"x": image(1, 2, 7, 8), "theta": image(1, 2, 3) * 0.3}, opset=20, only=("dynamo",))
cases.close()
