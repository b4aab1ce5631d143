package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/preprocess"
)

// colorModel writes a model folder that finds the strongest color of an image.
func colorModel() string {
	dir := filepath.Join(folders, "colors")
	if err := modelfolder.Write(dir, "colors"); err != nil {
		log.Fatal(err)
	}
	return dir
}

func photo() *preprocess.Image {
	m, err := preprocess.NewImage(2, 3, 3)
	if err != nil {
		log.Fatal(err)
	}
	for i := range m.Pixels {
		m.Pixels[i] = []uint8{30, 180, 90}[i%3]
	}
	return m
}

func ExampleOpenImageClassifier() {
	ctx := context.Background()
	c, err := pipeline.OpenImageClassifier(ctx, colorModel(), nil) // such as "vit-base-patch16-224"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	labels, err := c.Classify(ctx, photo(), 2) // a photo: preprocess.Decode
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %.2f, %s %.2f\n", labels[0].Name, labels[0].Score, labels[1].Name, labels[1].Score)
	// Output: green 0.75, blue 0.18
}

func ExampleOpenTextRecognizer() {
	ctx := context.Background()
	r, err := pipeline.OpenTextRecognizer(ctx, "rapidocr/models", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	lines, err := r.Recognize(ctx, photo())
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range lines {
		fmt.Printf("%s (%.2f) at %v\n", l.Text, l.Score, l.Box[0])
	}
}

func ExampleOpenObjectDetector() {
	ctx := context.Background()
	d, err := pipeline.OpenObjectDetector(ctx, "yolo11n", nil) // or a folder of DETR
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	objects, err := d.Detect(ctx, photo())
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range objects {
		fmt.Println(o.Label, o.Score, o.Min, o.Max)
	}
}

func ExampleOpenSegmenter() {
	ctx := context.Background()
	s, err := pipeline.OpenSegmenter(ctx, "segformer-b0-finetuned-ade-512-512", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m, err := s.Segment(ctx, photo())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Labels[m.Classes[0]]) // of the upper left pixel
}

func ExampleOpenDepthEstimator() {
	ctx := context.Background()
	d, err := pipeline.OpenDepthEstimator(ctx, "depth-anything-small-hf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	m, err := d.Estimate(ctx, photo())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Values[0]) // of the upper left pixel
}

func ExampleOpenBackgroundRemover() {
	ctx := context.Background()
	b, err := pipeline.OpenBackgroundRemover(ctx, "RMBG-1.4", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	m, err := b.Remove(ctx, photo())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.At(0, 0, 3)) // alpha of the upper left pixel
}

func ExampleOpenImageEmbedder() {
	ctx := context.Background()
	e, err := pipeline.OpenImageEmbedder(ctx, "clip-vit-base-patch32", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	image, err := e.EmbedImage(ctx, photo())
	if err != nil {
		log.Fatal(err)
	}
	text, err := e.EmbedText(ctx, "a photo of grass")
	fmt.Println(dot(image, text), err)
}

func ExampleOpenVoiceDetector() {
	ctx := context.Background()
	v, err := pipeline.OpenVoiceDetector(ctx, "silero_vad.onnx", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	samples := make([]float32, 16000) // of one channel: preprocess.ReadSound
	segments, err := v.Detect(ctx, samples, 16000)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range segments {
		fmt.Println(s.Start, s.End)
	}
}

func ExampleOpenWakeWord() {
	ctx := context.Background()
	w, err := pipeline.OpenWakeWord(ctx, "openwakeword/models", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	s := w.Stream()
	scores, err := s.Write(ctx, make([]float32, 1280)) // the next 80 ms at 16 kHz
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(scores[0].Scores["alexa_v0.1"] > 0.5)
}

// toneModel writes a folder with a model that hears words in tones, and returns tones.
func toneModel(kind string) (dir string, samples []float32) {
	dir = filepath.Join(folders, kind)
	if err := errors.Join(os.MkdirAll(dir, 0o755), modelfolder.Write(dir, kind)); err != nil {
		log.Fatal(err)
	}
	s, err := preprocess.ReadSound(bytes.NewReader(modelfolder.Tones("l_h_l")))
	if err != nil {
		log.Fatal(err)
	}
	return dir, s.Mono()
}

func ExampleOpenSpeechRecognizer() {
	ctx := context.Background()
	dir, samples := toneModel("transducer") // such as "parakeet-tdt-0.6b-v2-onnx"
	r, err := pipeline.OpenSpeechRecognizer(ctx, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	t, err := r.Recognize(ctx, samples, r.Rate()) // preprocess.Resample changes the rate
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Text)
	fmt.Println(t.Tokens[1].Start > 300*time.Millisecond)
	// Output:
	// low high low
	// true
}

func ExampleSpeechRecognizer_Stream() {
	ctx := context.Background()
	dir, samples := toneModel("stream") // such as "sherpa-onnx-streaming-zipformer-en-2023-06-26"
	r, err := pipeline.OpenSpeechRecognizer(ctx, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	s, err := r.Stream()
	if err != nil {
		log.Fatal(err)
	}
	for part := range slices.Chunk(samples, 1600) { // sound that arrives
		if _, err := s.Write(ctx, part); err != nil {
			log.Fatal(err)
		}
	}
	_, err = s.Finish(ctx)
	fmt.Println(s.Text(), err)
	// Output: low high low <nil>
}
