"""Exports transformers' models, with random weights, through both of torch's exporters.

    pip install torch transformers onnxscript numpy onnx==1.23.2 onnxruntime==1.31.1
    python bench/exports/export_transformers.py FOLDER [REGULAR-EXPRESSION]

The expected results are torch's."""

import importlib
import inspect

import torch
import transformers

from torch_case import add, cases, image

tf = transformers
HF = f"transformers {transformers.__version__}"
IDS = torch.randint(3, 90, (2, 11), generator=torch.Generator().manual_seed(4))
MASK = torch.ones(2, 11, dtype=torch.int64)
MASK[1, 8:] = 0
TEXT = {"input_ids": IDS, "attention_mask": MASK}
SMALL = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40)


def submodule(cls):
    """Some parts are not in the package's own list."""
    return getattr(importlib.import_module("transformers.models.vits.modeling_vits"), cls)


def hf(name, cls, config, inputs, family="transformers_encoders", **kw):
    def build():
        c = getattr(tf, config[0])(**config[1])
        c.use_cache = False
        return (getattr(tf, cls, None) or submodule(cls))(c)

    def first(out):
        return [v for v in out.values() if isinstance(v, torch.Tensor)]

    add(family, name, build, inputs, HF, pick=first, names=list(inputs), **kw)


hf("bert", "BertModel", ("BertConfig", SMALL), TEXT)
hf("bert_eager", "BertModel", ("BertConfig", SMALL | {"attn_implementation": "eager"}), TEXT)
hf("bert_masked", "BertForMaskedLM", ("BertConfig", SMALL), TEXT)
hf("bert_classifier", "BertForSequenceClassification", ("BertConfig", SMALL), TEXT)
hf("distilbert", "DistilBertModel", ("DistilBertConfig", dict(vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=40)), TEXT)
hf("roberta", "RobertaModel", ("RobertaConfig", SMALL), TEXT)
hf("xlm_roberta", "XLMRobertaModel", ("XLMRobertaConfig", SMALL), TEXT)
hf("electra", "ElectraModel", ("ElectraConfig", SMALL | {"embedding_size": 16}), TEXT)
hf("albert", "AlbertModel", ("AlbertConfig", SMALL | {"embedding_size": 16}), TEXT)
hf("deberta_v2", "DebertaV2Model", ("DebertaV2Config", SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}), TEXT)
hf("mpnet", "MPNetModel", ("MPNetConfig", SMALL), TEXT)
hf("modernbert", "ModernBertModel", ("ModernBertConfig", SMALL | {"pad_token_id": 0, "global_attn_every_n_layers": 2, "local_attention": 8}), TEXT)
hf("squeezebert", "SqueezeBertModel", ("SqueezeBertConfig", SMALL | {"embedding_size": 32}), TEXT)
hf("fnet", "FNetModel", ("FNetConfig", SMALL), {"input_ids": IDS})
T5 = dict(vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
hf("t5_encoder", "T5EncoderModel", ("T5Config", T5), TEXT)
hf("t5", "T5ForConditionalGeneration", ("T5Config", T5), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
GPT2 = dict(vocab_size=96, n_positions=40, n_embd=32, n_layer=2, n_head=4)
hf("gpt2", "GPT2LMHeadModel", ("GPT2Config", GPT2), TEXT, family="transformers_decoders")
hf("gpt_neo", "GPTNeoForCausalLM", ("GPTNeoConfig", dict(vocab_size=96, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], max_position_embeddings=40, window_size=4)), TEXT, family="transformers_decoders")
hf("gptj", "GPTJForCausalLM", ("GPTJConfig", GPT2 | {"rotary_dim": 4}), TEXT, family="transformers_decoders")
hf("opt", "OPTForCausalLM", ("OPTConfig", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, max_position_embeddings=40, word_embed_proj_dim=32)), TEXT, family="transformers_decoders")
hf("bloom", "BloomForCausalLM", ("BloomConfig", dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4)), TEXT, family="transformers_decoders")
for name, cls in [("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"), ("qwen3", "Qwen3"), ("gemma", "Gemma"), ("gemma2", "Gemma2"), ("phi3", "Phi3"), ("phi", "Phi"), ("olmo", "Olmo"), ("stablelm", "StableLm"), ("gpt_neox", "GPTNeoX"), ("falcon", "Falcon"), ("mixtral", "Mixtral")]:
    extra = {"num_key_value_heads": 2} if name not in ("gpt_neox", "falcon") else {}
    if name in ("gemma", "gemma2", "qwen3"):
        extra["head_dim"] = 8
    if name in ("phi3",):
        extra["pad_token_id"] = 0
    if name == "mixtral":
        extra |= {"num_local_experts": 4}
    hf(name, cls + "ForCausalLM", (cls + "Config", SMALL | extra), TEXT, family="transformers_decoders")
hf("bart", "BartModel", ("BartConfig", dict(vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40)), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
hf("mamba", "MambaForCausalLM", ("MambaConfig", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8)), {"input_ids": IDS}, family="transformers_decoders")


WHISPER = dict(vocab_size=96, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=20, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
MEL = image(1, 16, 40)


def whisper_encoder():
    return tf.WhisperModel(tf.WhisperConfig(**WHISPER)).encoder


add("transformers_audio", "whisper_encoder", whisper_encoder, {"input_features": MEL}, HF, pick=lambda o: o.last_hidden_state, names=["input_features"])
hf("whisper", "WhisperForConditionalGeneration", ("WhisperConfig", WHISPER), {"input_features": MEL, "decoder_input_ids": IDS[:1, :5]}, family="transformers_audio")
W2V = dict(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)
hf("wav2vec2", "Wav2Vec2Model", ("Wav2Vec2Config", W2V), {"input_values": image(1, 1600)}, family="transformers_audio")
hf("hubert", "HubertModel", ("HubertConfig", W2V), {"input_values": image(1, 1600)}, family="transformers_audio")
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8)
PIXELS = {"pixel_values": image(2, 3, 32, 32)}
hf("vit", "ViTModel", ("ViTConfig", VIT), PIXELS, family="transformers_vision")
hf("deit", "DeiTModel", ("DeiTConfig", VIT), PIXELS, family="transformers_vision")
hf("beit", "BeitModel", ("BeitConfig", VIT), PIXELS, family="transformers_vision")
hf("dinov2", "Dinov2Model", ("Dinov2Config", VIT), PIXELS, family="transformers_vision")
hf("clip_vision", "CLIPVisionModel", ("CLIPVisionConfig", VIT), PIXELS, family="transformers_vision")
hf("clip_text", "CLIPTextModel", ("CLIPTextConfig", SMALL | {"eos_token_id": 95, "bos_token_id": 94}), TEXT, family="transformers_vision")
hf("segformer", "SegformerForSemanticSegmentation", ("SegformerConfig", dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)), {"pixel_values": image(1, 3, 64, 64)}, family="transformers_vision")
hf("convnext", "ConvNextModel", ("ConvNextConfig", dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1])), {"pixel_values": image(1, 3, 64, 64)}, family="transformers_vision")
hf("mobilevit", "MobileViTModel", ("MobileViTConfig", dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[4, 8, 8, 16, 16, 16, 32], num_attention_heads=4)), {"pixel_values": image(1, 3, 64, 64)}, family="transformers_vision")

# --- one step of generation: the keys and values of earlier tokens come in and go out ------
PAST = 6


class Step(torch.nn.Module):
    """A step of a decoder: each layer's past keys and values are inputs of their own,
    and the present ones outputs, as in generation loops."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = tf.DynamicCache(ddp_cache_data=[(past[i], past[i + 1]) for i in range(0, len(past), 2)])
        extra = {"position_ids": position_ids} if "position_ids" in inspect.signature(self.model.forward).parameters else {}
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True, **extra)
        return out.logits, *[t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]


def with_past(name, cls, config, heads, head_dim=8, new=1, layers=2):
    inputs = {"input_ids": IDS[:, :new], "attention_mask": torch.ones(2, PAST + new, dtype=torch.int64), "position_ids": torch.arange(PAST, PAST + new).expand(2, new).contiguous()}
    for i in range(layers):
        for j, kind in enumerate(("key", "value")):
            inputs[f"past_key_values.{i}.{kind}"] = torch.randn(2, heads, PAST, head_dim, generator=torch.Generator().manual_seed(10 * i + j))
    add("transformers_past", name, lambda: Step(getattr(tf, cls)(getattr(tf, config[0])(**config[1]))), inputs, HF)


GROUPED = SMALL | {"num_key_value_heads": 2}
with_past("gpt2", "GPT2LMHeadModel", ("GPT2Config", GPT2), 4)
with_past("gpt2_prompt", "GPT2LMHeadModel", ("GPT2Config", GPT2), 4, new=3)
with_past("gpt_neox", "GPTNeoXForCausalLM", ("GPTNeoXConfig", SMALL), 4)
with_past("opt", "OPTForCausalLM", ("OPTConfig", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, max_position_embeddings=40, word_embed_proj_dim=32)), 4)
with_past("llama", "LlamaForCausalLM", ("LlamaConfig", GROUPED), 2)
with_past("llama_prompt", "LlamaForCausalLM", ("LlamaConfig", GROUPED), 2, new=3)
with_past("mistral_window", "MistralForCausalLM", ("MistralConfig", GROUPED | {"sliding_window": 64}), 2)
with_past("qwen2", "Qwen2ForCausalLM", ("Qwen2Config", GROUPED), 2)
with_past("qwen3", "Qwen3ForCausalLM", ("Qwen3Config", GROUPED | {"head_dim": 8}), 2)
with_past("gemma2", "Gemma2ForCausalLM", ("Gemma2Config", GROUPED | {"head_dim": 8}), 2)
with_past("gemma3", "Gemma3ForCausalLM", ("Gemma3TextConfig", GROUPED | {"head_dim": 8}), 2)
with_past("phi3", "Phi3ForCausalLM", ("Phi3Config", GROUPED | {"pad_token_id": 0}), 2)
with_past("olmo2", "Olmo2ForCausalLM", ("Olmo2Config", GROUPED), 2)
with_past("granite", "GraniteForCausalLM", ("GraniteConfig", GROUPED), 2)
with_past("smollm3", "SmolLM3ForCausalLM", ("SmolLM3Config", GROUPED | {"pad_token_id": 0}), 2)
with_past("cohere", "CohereForCausalLM", ("CohereConfig", GROUPED | {"pad_token_id": 0}), 2)


class CrossStep(torch.nn.Module):
    """A step of an encoder-decoder: past keys and values of its own tokens come in
    and go out, those of the encoder's come in."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, decoder_input_ids, encoder_hidden_states, *past):
        own, cross = tf.DynamicCache(), tf.DynamicCache()
        for i in range(len(past) // 4):
            own.update(past[4 * i], past[4 * i + 1], i)
            cross.update(past[4 * i + 2], past[4 * i + 3], i)
        cache = tf.EncoderDecoderCache(own, cross)
        out = self.model(decoder_input_ids=decoder_input_ids, encoder_outputs=(encoder_hidden_states,), past_key_values=cache, use_cache=True)
        return out.logits, *[t for layer in out.past_key_values.self_attention_cache.layers for t in (layer.keys, layer.values)]


def cross_past(name, cls, config, source=9):
    inputs = {"decoder_input_ids": IDS[:, :1], "encoder_hidden_states": torch.randn(2, source, 32, generator=torch.Generator().manual_seed(7))}
    for i in range(2):
        for j, (kind, n) in enumerate((("decoder.key", PAST), ("decoder.value", PAST), ("encoder.key", source), ("encoder.value", source))):
            inputs[f"past_key_values.{i}.{kind}"] = torch.randn(2, 4, n, 8, generator=torch.Generator().manual_seed(10 * i + j))
    add("transformers_past", name, lambda: CrossStep(getattr(tf, cls)(getattr(tf, config[0])(**config[1]))), inputs, HF)


SEQ2SEQ = dict(vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40)
cross_past("t5", "T5ForConditionalGeneration", ("T5Config", T5))
cross_past("bart", "BartForConditionalGeneration", ("BartConfig", SEQ2SEQ))
cross_past("marian", "MarianMTModel", ("MarianConfig", SEQ2SEQ | {"pad_token_id": 0, "decoder_start_token_id": 0}))
cross_past("whisper", "WhisperForConditionalGeneration", ("WhisperConfig", WHISPER), source=20)

# --- more encoders and decoders --------------------------------------------------------
hf("mt5", "MT5ForConditionalGeneration", ("MT5Config", T5), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
hf("marian", "MarianMTModel", ("MarianConfig", SEQ2SEQ | {"pad_token_id": 0, "decoder_start_token_id": 0}), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
hf("pegasus", "PegasusForConditionalGeneration", ("PegasusConfig", SEQ2SEQ), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
hf("m2m_100", "M2M100ForConditionalGeneration", ("M2M100Config", SEQ2SEQ), TEXT | {"decoder_input_ids": IDS[:, :5]}, family="transformers_decoders")
for name, cls, config in [("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig"), ("olmo2", "Olmo2ForCausalLM", "Olmo2Config"), ("granite", "GraniteForCausalLM", "GraniteConfig"),
                          ("cohere", "CohereForCausalLM", "CohereConfig"), ("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config"), ("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config"), ("persimmon", "PersimmonForCausalLM", "PersimmonConfig"),
                          ("helium", "HeliumForCausalLM", "HeliumConfig"), ("nemotron", "NemotronForCausalLM", "NemotronConfig"), ("glm", "GlmForCausalLM", "GlmConfig")]:
    hf(name, cls, (config, GROUPED | {"pad_token_id": 0} | ({"head_dim": 8} if name in ("gemma3", "glm", "helium") else {})), TEXT, family="transformers_decoders")
hf("mamba2", "Mamba2ForCausalLM", ("Mamba2Config", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=2, expand=2, chunk_size=4)), {"input_ids": IDS}, family="transformers_decoders")
hf("xglm", "XGLMForCausalLM", ("XGLMConfig", dict(vocab_size=96, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48, max_position_embeddings=40)), TEXT, family="transformers_decoders")
hf("codegen", "CodeGenForCausalLM", ("CodeGenConfig", GPT2 | {"rotary_dim": 4, "n_ctx": 40}), TEXT, family="transformers_decoders")
hf("xlnet", "XLNetModel", ("XLNetConfig", dict(vocab_size=96, d_model=32, n_layer=2, n_head=4, d_inner=48)), TEXT)
hf("longformer", "LongformerModel", ("LongformerConfig", SMALL | {"attention_window": 4, "pad_token_id": 0}), TEXT)
hf("roformer", "RoFormerModel", ("RoFormerConfig", SMALL | {"embedding_size": 32}), TEXT)
hf("esm", "EsmModel", ("EsmConfig", SMALL | {"pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "rotary"}), TEXT)
hf("deberta", "DebertaModel", ("DebertaConfig", SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}), TEXT)
hf("camembert", "CamembertForTokenClassification", ("CamembertConfig", SMALL), TEXT)
hf("bert_answers", "BertForQuestionAnswering", ("BertConfig", SMALL), TEXT)
hf("funnel", "FunnelModel", ("FunnelConfig", dict(vocab_size=96, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=48)), TEXT)
hf("big_bird", "BigBirdModel", ("BigBirdConfig", SMALL | {"attention_type": "original_full"}), TEXT)
hf("convbert", "ConvBertModel", ("ConvBertConfig", SMALL | {"embedding_size": 16}), TEXT)
hf("ibert", "IBertModel", ("IBertConfig", SMALL), TEXT)
hf("mobilebert", "MobileBertModel", ("MobileBertConfig", SMALL | {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}), TEXT)
hf("nomic_bert", "NomicBertModel", ("NomicBertConfig", SMALL), TEXT)
hf("rembert", "RemBertModel", ("RemBertConfig", SMALL | {"input_embedding_size": 16}), TEXT)
hf("layoutlm", "LayoutLMModel", ("LayoutLMConfig", SMALL | {"max_2d_position_embeddings": 64}), TEXT | {"bbox": torch.randint(0, 30, (2, 11, 4), generator=torch.Generator().manual_seed(5)).cumsum(-1) // 2})

# --- text and images together --------------------------------------------------------------
PICTURES = {"pixel_values": image(2, 3, 32, 32)}
TOWER = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
BOTH = TEXT | PICTURES
hf("clip", "CLIPModel", ("CLIPConfig", dict(text_config=SMALL | {"eos_token_id": 95, "bos_token_id": 94}, vision_config=TOWER | {"image_size": 32, "patch_size": 8}, projection_dim=16)), BOTH, family="transformers_multimodal")
hf("siglip", "SiglipModel", ("SiglipConfig", dict(text_config=SMALL, vision_config=TOWER | {"image_size": 32, "patch_size": 8})), BOTH, family="transformers_multimodal")
hf("blip", "BlipForImageTextRetrieval", ("BlipConfig", dict(text_config=SMALL | {"encoder_hidden_size": 32}, vision_config=TOWER | {"image_size": 32, "patch_size": 8}, projection_dim=16, image_text_hidden_size=16)), BOTH, family="transformers_multimodal")
hf("clipseg", "CLIPSegForImageSegmentation", ("CLIPSegConfig", dict(text_config=SMALL | {"eos_token_id": 95, "bos_token_id": 94}, vision_config=TOWER | {"image_size": 32, "patch_size": 8}, projection_dim=32, extract_layers=[0, 1], reduce_dim=16, decoder_num_attention_heads=4, decoder_intermediate_size=32)), BOTH, family="transformers_multimodal")
hf("vilt", "ViltModel", ("ViltConfig", SMALL | {"image_size": 32, "patch_size": 8}), BOTH, family="transformers_multimodal")
hf("chinese_clip", "ChineseCLIPModel", ("ChineseCLIPConfig", dict(text_config=SMALL, vision_config=TOWER | {"image_size": 32, "patch_size": 8}, projection_dim=16)), BOTH, family="transformers_multimodal")

# --- more audio ---------------------------------------------------------------------------------
SOUND = {"input_values": image(1, 1600)}
hf("wavlm", "WavLMModel", ("WavLMConfig", W2V), SOUND, family="transformers_audio")
hf("wav2vec2_ctc", "Wav2Vec2ForCTC", ("Wav2Vec2Config", W2V), SOUND, family="transformers_audio")
hf("data2vec_audio", "Data2VecAudioModel", ("Data2VecAudioConfig", W2V | {"conv_pos_kernel_size": 9, "num_conv_pos_embeddings": 2}), SOUND, family="transformers_audio")
hf("sew", "SEWModel", ("SEWConfig", W2V | {"squeeze_factor": 2}), SOUND, family="transformers_audio")
hf("unispeech", "UniSpeechModel", ("UniSpeechConfig", W2V), SOUND, family="transformers_audio")
hf("wav2vec2_conformer", "Wav2Vec2ConformerModel", ("Wav2Vec2ConformerConfig", W2V | {"position_embeddings_type": "rotary"}), SOUND, family="transformers_audio")
hf("audio_spectrogram", "ASTModel", ("ASTConfig", TOWER | {"patch_size": 8, "max_length": 40, "num_mel_bins": 16, "frequency_stride": 6, "time_stride": 6}), {"input_values": image(1, 40, 16)}, family="transformers_audio")
hf("vits", "VitsTextEncoder", ("VitsConfig", dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=48, flow_size=16)), {"input_ids": IDS, "padding_mask": torch.ones(2, 11, 1)}, family="transformers_audio")
add("transformers_audio", "hifi_gan", lambda: tf.SpeechT5HifiGan(tf.SpeechT5HifiGanConfig(model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]])), {"spectrogram": image(1, 10, 16)}, HF)
ENCODEC = dict(num_filters=4, hidden_size=16, codebook_dim=16, codebook_size=32, upsampling_ratios=[4, 2], num_lstm_layers=1, target_bandwidths=[6.0, 12.0])
add("transformers_audio", "encodec_encoder", lambda: tf.EncodecModel(tf.EncodecConfig(**ENCODEC)).encoder, {"audio": image(1, 1, 160)}, HF)
add("transformers_audio", "encodec_decoder", lambda: tf.EncodecModel(tf.EncodecConfig(**ENCODEC)).decoder, {"codes": image(1, 16, 20)}, HF)

# --- more vision -----------------------------------------------------------------------------------
LARGE = {"pixel_values": image(1, 3, 64, 64)}
hf("convnextv2", "ConvNextV2Model", ("ConvNextV2Config", dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1])), LARGE, family="transformers_vision")
WINDOWS = dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
hf("swin", "SwinModel", ("SwinConfig", WINDOWS), PIXELS, family="transformers_vision")
hf("swinv2", "Swinv2Model", ("Swinv2Config", WINDOWS), PIXELS, family="transformers_vision")
hf("resnet", "ResNetModel", ("ResNetConfig", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])), LARGE, family="transformers_vision")
hf("regnet", "RegNetModel", ("RegNetConfig", dict(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], groups_width=8)), LARGE, family="transformers_vision")
hf("levit", "LevitModel", ("LevitConfig", dict(image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 2, 4], depths=[1, 1, 1], key_dim=[8, 8, 8])), LARGE, family="transformers_vision")
hf("poolformer", "PoolFormerModel", ("PoolFormerConfig", dict(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1])), LARGE, family="transformers_vision")
hf("pvt", "PvtModel", ("PvtConfig", dict(image_size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])), LARGE, family="transformers_vision")
hf("cvt", "CvtModel", ("CvtConfig", dict(embed_dim=[8, 16, 32], num_heads=[1, 2, 4], depth=[1, 2, 3])), LARGE, family="transformers_vision")
hf("dinov2_registers", "Dinov2WithRegistersModel", ("Dinov2WithRegistersConfig", VIT), PIXELS, family="transformers_vision")
hf("ijepa", "IJepaModel", ("IJepaConfig", VIT), PIXELS, family="transformers_vision")
hf("yolos", "YolosForObjectDetection", ("YolosConfig", VIT | {"image_size": [32, 32], "num_detection_tokens": 5}), PIXELS, family="transformers_vision")
hf("dpt", "DPTForDepthEstimation", ("DPTConfig", TOWER | {"num_hidden_layers": 4, "image_size": 64, "patch_size": 16, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 16, 16, 16], "fusion_hidden_size": 16}), LARGE, family="transformers_vision")
hf("depth_anything", "DepthAnythingForDepthEstimation", ("DepthAnythingConfig", dict(backbone_config=tf.Dinov2Config(**VIT | {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4], "reshape_hidden_states": False, "apply_layernorm": True}), patch_size=8, reassemble_hidden_size=32, neck_hidden_sizes=[8, 16, 16, 16], fusion_hidden_size=16, head_hidden_size=8)), PIXELS, family="transformers_vision")
hf("detr", "DetrForObjectDetection", ("DetrConfig", dict(backbone_config=tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]), use_timm_backbone=False, use_pretrained_backbone=False, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=6)), LARGE, family="transformers_vision")
SAM = tf.SamConfig(vision_config=TOWER | {"output_channels": 16, "image_size": 64, "patch_size": 16, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 48, "num_pos_feats": 8}, prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 16}, mask_decoder_config={"hidden_size": 16, "num_attention_heads": 2, "mlp_dim": 32, "iou_head_hidden_dim": 16})
add("transformers_vision", "sam", lambda: tf.SamModel(SAM), {"pixel_values": LARGE["pixel_values"], "input_points": torch.tensor([[[[10.0, 20.0], [33.0, 40.0]]]])}, HF, names=["pixel_values", "input_points"], pick=lambda o: [o.iou_scores, o.pred_masks])
hf("mask2former", "Mask2FormerForUniversalSegmentation", ("Mask2FormerConfig", dict(backbone_config=tf.SwinConfig(image_size=64, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4, out_features=["stage1", "stage2", "stage3", "stage4"]), feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=32, dim_feedforward=32, encoder_layers=1, decoder_layers=2, num_attention_heads=2, num_queries=5)), LARGE, family="transformers_vision")
hf("vit_mae_hiera", "HieraModel", ("HieraConfig", dict(image_size=[64, 64], embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2])), LARGE, family="transformers_vision")
hf("trocr", "TrOCRForCausalLM", ("TrOCRConfig", dict(vocab_size=96, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48, max_position_embeddings=40)), {"input_ids": IDS}, family="transformers_decoders")
hf("swin2sr", "Swin2SRForImageSuperResolution", ("Swin2SRConfig", dict(image_size=16, embed_dim=16, depths=[2], num_heads=[2], window_size=4, upscale=2)), {"pixel_values": image(1, 3, 16, 16)}, family="transformers_vision")
cases.close()
