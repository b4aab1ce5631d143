package inputs

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/internal/imageinput"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

const inputSize = "input"

// Image says how images are converted.
type Image struct {
	Size      string    // to which images are resized: "" for none, "input", or 224x224 (height first)
	Mean, Std []float32 // per channel, or one for all; of the values after scaling
}

// Register adds the flags.
func (p *Image) Register(f *pflag.FlagSet) {
	f.StringVar(&p.Size, "resize", "",
		"resize images as Pillow does (bilinear) to this size, HEIGHTxWIDTH, or without a value to that of the input")
	f.Lookup("resize").NoOptDefVal = inputSize
	f.Float32SliceVar(&p.Mean, "mean", nil,
		"what is subtracted from the values of images, per channel: 0.485,0.456,0.406")
	f.Float32SliceVar(&p.Std, "std", nil, "what the values of images are divided by, per channel: 0.229,0.224,0.225")
	f.Lookup("mean").DefValue, f.Lookup("std").DefValue = "", "" // help would show an empty list
}

// read decodes an image for an input [N,C,H,W], [N,H,W,C], or either without N. Values are 0 to 1
// for float inputs and 0 to 255 for integer inputs, before they are normalized.
func (p *Image) read(arg onward.NodeArg, file string) (tensor.Value, error) {
	if p == nil {
		p = new(Image)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	layout, err := imageinput.For(arg)
	if err != nil {
		return nil, err
	}
	img, err := preprocess.Decode(f, layout.Channels)
	if err == nil {
		img, err = p.resize(img, layout)
	}
	if err == nil {
		err = layout.Check(img.Height, img.Width)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t, err := img.Tensor(preprocess.Layout{ChannelsLast: !layout.ChannelsFirst, Scale: layout.Scale,
		Mean: p.Mean, Std: p.Std})
	if err == nil && len(arg.Shape) == 3 {
		t, err = tensor.New(tensor.MustData[float32](t), t.Shape()[1:]...)
	}
	if err != nil {
		return nil, err
	}
	return tensor.Convert(t, arg.ElementType().Elem, &tensor.ConvertOptions{Saturate: true})
}

// resize resizes an image to the size of the flag.
func (p *Image) resize(img *preprocess.Image, l imageinput.Layout) (*preprocess.Image, error) {
	var height, width int
	switch p.Size {
	case "":
		return img, nil
	case inputSize:
		height, width = int(l.Height.Value), int(l.Width.Value)
		if height < 1 || width < 1 {
			return nil, cli.Usagef(
				"--resize has no size, and the height and width of the input are free; want --resize=224x224")
		}
	default:
		size, err := parseShape(p.Size)
		if err != nil || len(size) != 2 || size[0] < 1 || size[1] < 1 {
			return nil, cli.Usagef("--resize is %q, want a height and a width such as 224x224", p.Size)
		}
		height, width = size[0], size[1]
	}
	return img.Resize(height, width, preprocess.Bilinear)
}
