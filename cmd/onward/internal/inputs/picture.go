package inputs

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/internal/picture"
	"github.com/onward-ml/onward/tensor"
)

const inputSize = "input"

// Picture says how pictures are converted.
type Picture struct {
	Size      string    // to which pictures are scaled: "" for none, "input", or 224x224 (height first)
	Mean, Std []float64 // per channel, or one for all; of the values after scaling
}

// Register adds the flags.
func (p *Picture) Register(f *pflag.FlagSet) {
	f.StringVar(&p.Size, "resize", "", "scale pictures bilinearly to this size, HEIGHTxWIDTH, or without a value to that of the input")
	f.Lookup("resize").NoOptDefVal = inputSize
	f.Float64SliceVar(&p.Mean, "mean", nil, "what is subtracted from the values of pictures, per channel: 0.485,0.456,0.406")
	f.Float64SliceVar(&p.Std, "std", nil, "what the values of pictures are divided by, per channel: 0.229,0.224,0.225")
}

// read decodes an image for an input [N,C,H,W], [N,H,W,C], or either without N. Values are 0 to 1
// for float inputs and 0 to 255 for integer inputs, before they are normalized.
func (p *Picture) read(arg onward.NodeArg, file string) (tensor.Value, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	layout, err := picture.For(arg)
	if err != nil {
		return nil, err
	}
	if p != nil {
		if err := p.resize(&layout); err != nil {
			return nil, err
		}
	}
	data, shape, err := layout.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p != nil {
		if err := p.normalize(data, layout); err != nil {
			return nil, err
		}
	}
	if len(arg.Shape) == 4 {
		shape = append([]int{1}, shape...)
	}
	t, err := tensor.New(data, shape...)
	if err != nil {
		return nil, err
	}
	return tensor.Convert(t, arg.ElementType().Elem, tensor.ConvertOptions{Saturate: true})
}

// resize sets the size of pictures.
func (p *Picture) resize(l *picture.Layout) error {
	switch p.Size {
	case "":
	case inputSize:
		if l.Height.Value < 1 || l.Width.Value < 1 {
			return cli.Usagef("--resize has no size, and the height and width of the input are free; want --resize=224x224")
		}
		l.ToHeight, l.ToWidth = int(l.Height.Value), int(l.Width.Value)
	default:
		size, err := parseShape(p.Size)
		if err != nil || len(size) != 2 || size[0] < 1 || size[1] < 1 {
			return cli.Usagef("--resize is %q, want a height and a width such as 224x224", p.Size)
		}
		l.ToHeight, l.ToWidth = size[0], size[1]
	}
	return nil
}

// normalize subtracts the mean and divides by the standard deviation.
func (p *Picture) normalize(data []float32, l picture.Layout) error {
	at := func(list []float64, channel int, other float64) float64 {
		switch len(list) {
		case 0:
			return other
		case 1:
			return list[0]
		}
		return list[channel]
	}
	for name, list := range map[string][]float64{"--mean": p.Mean, "--std": p.Std} {
		if len(list) > 1 && len(list) != l.Channels {
			return fmt.Errorf("%s has %d values, want 1 or %d, one for each channel", name, len(list), l.Channels)
		}
	}
	for i := range data {
		c := i % l.Channels
		if l.ChannelsFirst {
			c = i / (len(data) / l.Channels)
		}
		std := at(p.Std, c, 1)
		if std == 0 {
			return fmt.Errorf("--std is 0 for channel %d, want other values", c)
		}
		data[i] = float32((float64(data[i]) - at(p.Mean, c, 0)) / std)
	}
	return nil
}
