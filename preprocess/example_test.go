package preprocess_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"

	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// This is what torchvision does before a ResNet: the shorter side becomes 256, and the middle of
// 224 by 224 pixels is normalized.
func Example() {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 640, 480))); err != nil {
		panic(err)
	}
	m, err := preprocess.Decode(bytes.NewReader(file.Bytes()), 3)
	if err != nil {
		panic(err)
	}
	if m, err = m.ResizeShorter(256, preprocess.Bilinear); err != nil {
		panic(err)
	}
	fmt.Println(m.Height, m.Width)
	if m, err = m.CenterCrop(224, 224); err != nil {
		panic(err)
	}
	x, err := m.Tensor(preprocess.ImageNet)
	fmt.Printf("%s %v\n", x, err)
	fmt.Printf("%.4f\n", tensor.MustData[float32](x)[0])
	// Output:
	// 256 341
	// float[1 3 224 224] <nil>
	// -2.1179
}

// A detector needs the boxes that it finds in the coordinates of the original.
func ExampleImage_Letterbox() {
	m, err := preprocess.NewImage(480, 640, 3)
	if err != nil {
		panic(err)
	}
	m, p, err := m.Letterbox(320, 320, preprocess.Bilinear, 114)
	fmt.Println(m.Height, m.Width, p.Scale, p.Top, p.Left, err)
	// Output: 320 320 0.5 40 0 <nil>
}

func ExampleLogMel() {
	tone := make([]float32, 16000) // one second of 440 Hz
	for i := range tone {
		tone[i] = float32(math.Sin(2 * math.Pi * 440 * float64(i) / 16000))
	}
	x, err := preprocess.LogMel(preprocess.Fit(tone, 30*16000), 80)
	fmt.Printf("%s %v\n", x, err)
	// Output: float[1 80 3000] <nil>
}
