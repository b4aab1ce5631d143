// Command quantize makes an 8-bit model of a float model and compares the two: their size, how far
// the outputs differ, and how often the prediction is the same.
//
//	go run ./examples/quantize
package main

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func main() {
	if _, err := quantize(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// quantize returns the comparison of the two models, one entry for each output.
func quantize(ctx context.Context, w io.Writer) ([]calibration.OutputReport, error) {
	data, err := datasets.Get("digits.onnx")
	if err != nil {
		return nil, err
	}
	model, err := onnx.Unmarshal(data, nil)
	if err != nil {
		return nil, err
	}
	// 1. Measure the range of each activation, over data like that of later use.
	table, err := calibration.Calibrate(ctx, model, calibration.Batches(samples(1), samples(2)), nil)
	if err != nil {
		return nil, err
	}
	// 2. Store weights and activations in 8 bits, with a scale for each channel of a weight.
	small, err := calibration.QuantizeStatic(model, table, &calibration.QuantizeOptions{PerChannel: true})
	if err != nil {
		return nil, err
	}
	packed, err := small.Marshal()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%d bytes, was %d\n", len(packed), len(data))
	// 3. Compare both on data that the calibration has not seen.
	report, err := calibration.Evaluate(ctx, model, small, calibration.Batches(samples(3)), nil)
	if err != nil {
		return nil, err
	}
	for _, o := range report.Outputs {
		fmt.Fprintf(w, "%s: %.1f %% agree, largest difference %.3g\n", o.Name, 100*o.Agreement(), o.MaxAbs)
	}
	return report.Outputs, nil
}

// samples returns a batch of noisy copies of a handwritten digit. Take real data for a real model.
func samples(seed uint64) onward.Values {
	const n, side = 64, 8
	m, err := png.Decode(bytes.NewReader(datasets.SampleImage()))
	if err != nil {
		panic(err) // embedded in the program
	}
	r := rand.New(rand.NewPCG(seed, 0))
	pixels := make([]float32, 0, n*side*side)
	for range n {
		for i := range side * side {
			ink := float32(color.GrayModel.Convert(m.At(i%side, i/side)).(color.Gray).Y) / 255
			pixels = append(pixels, min(max(ink+float32(r.NormFloat64())/8, 0), 1))
		}
	}
	return onward.Values{"image": tensor.Must(tensor.New(pixels, n, 1, side, side))}
}
