package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/onward-ml/onward/preprocess"
)

// imageProcessor makes the input of an image model as preprocessor_config.json says. Its numbers
// are those of transformers' image processors with Pillow.
type imageProcessor struct {
	kind        string // of the processor, such as "ViT"
	resize      bool
	size        imageSize
	filter      preprocess.Filter
	crop        bool
	cropSize    imageSize
	cropPercent float64 // of ConvNext
	multiple    int     // of DPT
	keepRatio   bool    // of DPT
	pad         imageSize
	flip        bool // blue first
	scale       float64
	mean, std   [3]float32
	levels      [3][256]float32 // values of the model by channel and byte
}

// imageSize is a size in preprocessor_config.json. Fields that are missing are 0.
type imageSize struct {
	Height   int `json:"height"`
	Width    int `json:"width"`
	Shortest int `json:"shortest_edge"`
	Longest  int `json:"longest_edge"`
}

// processorDefaults are the settings of a kind of processor that a file may omit.
type processorDefaults struct {
	filter     int // of Pillow
	size       imageSize
	crop       int
	mean, std  [3]float32
	normalizes bool
	flips      bool
	shortest   bool // a number as size is that of the shorter side
}

var (
	half         = [3]float32{0.5, 0.5, 0.5}
	imageNetMean = [3]float32{0.485, 0.456, 0.406}
	imageNetStd  = [3]float32{0.229, 0.224, 0.225}
	clipMean     = [3]float32{0.48145466, 0.4578275, 0.40821073}
	clipStd      = [3]float32{0.26862954, 0.26130258, 0.27577711}
)

func square(n int) imageSize { return imageSize{Height: n, Width: n} }

// processors are the kinds of processors that are supported: the class name of transformers without
// "ImageProcessor" or "FeatureExtractor".
var processors = map[string]processorDefaults{
	"ViT":             {2, square(224), 0, half, half, true, false, false},
	"DeiT":            {3, square(256), 224, half, half, true, false, false},
	"Beit":            {3, square(256), 224, half, half, true, false, false},
	"Bit":             {3, imageSize{Shortest: 224}, 224, clipMean, clipStd, true, false, true},
	"CLIP":            {3, imageSize{Shortest: 224}, 224, clipMean, clipStd, true, false, true},
	"ChineseCLIP":     {3, imageSize{Shortest: 224}, 224, clipMean, clipStd, true, false, true},
	"Siglip":          {3, square(224), 0, half, half, true, false, false},
	"ConvNext":        {3, imageSize{Shortest: 384}, 0, half, half, true, false, true},
	"Levit":           {3, imageSize{Shortest: 224}, 224, imageNetMean, imageNetStd, true, false, true},
	"MobileViT":       {3, imageSize{Shortest: 224}, 256, half, half, false, true, true},
	"MobileNetV1":     {2, imageSize{Shortest: 256}, 224, half, half, true, false, true},
	"MobileNetV2":     {2, imageSize{Shortest: 256}, 224, half, half, true, false, true},
	"Segformer":       {2, square(512), 0, imageNetMean, imageNetStd, true, false, false},
	"DPT":             {3, square(384), 0, half, half, true, false, false},
	"Detr":            {2, imageSize{Shortest: 800, Longest: 1333}, 0, imageNetMean, imageNetStd, true, false, true},
	"ConditionalDetr": {2, imageSize{Shortest: 800, Longest: 1333}, 0, imageNetMean, imageNetStd, true, false, true},
	"DeformableDetr":  {2, imageSize{Shortest: 800, Longest: 1333}, 0, imageNetMean, imageNetStd, true, false, true},
	"Yolos":           {2, imageSize{Shortest: 800, Longest: 1333}, 0, imageNetMean, imageNetStd, true, false, true},
	"RTDetr":          {2, square(640), 0, imageNetMean, imageNetStd, false, false, false},
}

// processorConfig reads preprocessor_config.json, or a part of processor_config.json.
func (f *folder) processorConfig(part string) (*object, error) {
	o, err := f.json("preprocessor_config.json")
	if err == nil && len(o.fields) == 0 {
		if o, err = f.json("processor_config.json"); err == nil {
			o = o.object(part)
		}
	}
	if err == nil && len(o.fields) == 0 {
		err = errors.Join(o.err, errors.New("there is no preprocessor_config.json"))
	}
	return o, err
}

// imageProcessor reads the settings of an image processor.
func (f *folder) imageProcessor() (*imageProcessor, error) {
	o, err := f.processorConfig("image_processor")
	if err != nil {
		return nil, err
	}
	p, err := newImageProcessor(o)
	if err == nil {
		err = o.err
	}
	return p, err
}

func newImageProcessor(o *object) (*imageProcessor, error) {
	var kind string
	if !o.get("image_processor_type", &kind) {
		o.get("feature_extractor_type", &kind)
	}
	for _, suffix := range []string{"Fast", "Pil", "ImageProcessor", "FeatureExtractor"} {
		kind = strings.TrimSuffix(kind, suffix)
	}
	d, ok := processors[kind]
	if !ok {
		return nil, fmt.Errorf("%s: image processor %q is not supported", o.name, kind)
	}
	p := &imageProcessor{kind: kind, resize: true, size: d.size, crop: d.crop > 0, cropSize: square(d.crop),
		cropPercent: 224.0 / 256, multiple: 1, flip: d.flips, scale: 1.0 / 255, mean: d.mean, std: d.std}
	o.get("do_resize", &p.resize)
	if kind == "Bit" || kind == "CLIP" {
		p.crop = true
	}
	o.get("do_center_crop", &p.crop)
	o.get("crop_pct", &p.cropPercent)
	o.get("ensure_multiple_of", &p.multiple)
	o.get("keep_aspect_ratio", &p.keepRatio)
	o.get("do_flip_channel_order", &p.flip)
	o.size("size", &p.size, !d.shortest)
	o.size("crop_size", &p.cropSize, true)
	pad := false
	if o.get("do_pad", &pad); pad {
		o.size("pad_size", &p.pad, true)
	}
	for _, field := range []string{"size_divisor", "size_divisibility", "do_thumbnail", "do_align_long_axis"} {
		var v any
		if o.get(field, &v); v != nil && v != false && (field[0] != 's' || pad || kind == "GLPN") {
			o.fail(field, "%v is not supported", v)
		}
	}
	number := d.filter
	o.get("resample", &number)
	filters := [...]preprocess.Filter{preprocess.Nearest, preprocess.Lanczos, preprocess.Bilinear, preprocess.Bicubic,
		preprocess.Box, preprocess.Hamming}
	if number < 0 || number >= len(filters) {
		o.fail("resample", "filter %d of Pillow is unknown, want 0 to %d", number, len(filters)-1)
		number = 0
	}
	p.filter = filters[number]
	rescales, normalizes := true, d.normalizes
	o.get("do_rescale", &rescales)
	o.get("rescale_factor", &p.scale)
	o.get("do_normalize", &normalizes)
	o.channels("image_mean", &p.mean)
	o.channels("image_std", &p.std)
	var offset bool
	if o.get("rescale_offset", &offset); offset {
		o.fail("rescale_offset", "true is not supported")
	}
	for c := range 3 {
		if normalizes && p.std[c] == 0 {
			o.fail("image_std", "want numbers other than 0, got %v", p.std)
		}
		for v := range 256 {
			x := float32(v)
			if rescales {
				x = float32(float64(v) * p.scale)
			}
			if normalizes {
				x = (x - p.mean[c]) / p.std[c]
			}
			p.levels[c][v] = x
		}
	}
	for field, s := range map[string]imageSize{"size": p.size, "crop_size": p.cropSize, "pad_size": p.pad} {
		if min(s.Height, s.Width, s.Shortest, s.Longest) < 0 || max(s.Height, s.Width, s.Shortest, s.Longest) > 1<<14 {
			o.fail(field, "want 0 to %d, got %+v", 1<<14, s)
		}
	}
	if s := p.size; p.resize && s.Shortest == 0 && (s.Height == 0 || s.Width == 0) {
		o.fail("size", "want height and width, or shortest_edge, got %+v", s)
	}
	if p.multiple < 1 || p.multiple > 1<<12 || !(p.cropPercent > 0.01) || p.cropPercent > 1 {
		o.fail("ensure_multiple_of", "want 1 to 4096, and crop_pct from 0.01 to 1, got %d and %g", p.multiple,
			p.cropPercent)
	}
	return p, o.err
}

// size reads a size: an object, or a number.
func (o *object) size(field string, to *imageSize, square bool) {
	var n int
	if raw := o.fields[field]; o.has(field) && json.Unmarshal(raw, &n) == nil {
		*to = imageSize{Shortest: n}
		if square {
			*to = imageSize{Height: n, Width: n}
		}
		return
	}
	if o.has(field) {
		*to = imageSize{}
		o.get(field, to)
	}
}

// channels reads three numbers, or one for all channels.
func (o *object) channels(field string, to *[3]float32) {
	var v float32
	if raw := o.fields[field]; o.has(field) && json.Unmarshal(raw, &v) == nil {
		*to = [3]float32{v, v, v}
		return
	}
	var list []float32
	if !o.get(field, &list) {
		return
	}
	if len(list) != 3 {
		o.fail(field, "want three numbers, got %d", len(list))
		return
	}
	copy(to[:], list)
}

// rgb returns an image with three channels; transparent pixels keep their colors.
func rgb(m *preprocess.Image) (*preprocess.Image, error) {
	if m == nil || m.Height <= 0 || m.Width <= 0 || m.Channels != 1 && m.Channels != 3 && m.Channels != 4 ||
		len(m.Pixels) != m.Height*m.Width*m.Channels {
		return nil, errors.New("want an image with 1, 3 or 4 channels and all of its pixels")
	}
	if m.Channels == 3 {
		return m, nil
	}
	r, err := preprocess.NewImage(m.Height, m.Width, 3)
	if err != nil {
		return nil, err
	}
	for i := range m.Height * m.Width {
		for c := range 3 {
			r.Pixels[3*i+c] = m.Pixels[i*m.Channels+min(c, m.Channels-1)]
		}
	}
	return r, nil
}

// target returns the size to which an image is resized.
func (p *imageProcessor) target(h, w int) (height, width int) {
	s := p.size
	shortest := func(n float64, exact float64) (int, int) { // the sides for a shorter side of n
		if h <= w {
			return int(n), int(exact * float64(w) / float64(h))
		}
		return int(exact * float64(h) / float64(w)), int(n)
	}
	switch {
	case p.kind == "ConvNext" && s.Shortest >= 384:
		return s.Shortest, s.Shortest
	case p.kind == "ConvNext":
		n := float64(int(float64(s.Shortest) / p.cropPercent))
		return shortest(n, n)
	case s.Shortest > 0 && s.Longest > 0:
		size, exact := float64(s.Shortest), float64(s.Shortest)
		low, high := float64(min(h, w)), float64(max(h, w))
		if p.kind == "Yolos" {
			defer func() { height, width = height/16*16, width/16*16 }()
		}
		if high/low*size > float64(s.Longest) {
			exact = float64(s.Longest) * low / high
			size = math.RoundToEven(exact)
		}
		if low == size {
			return h, w
		}
		return shortest(size, exact)
	case s.Shortest > 0:
		n := float64(s.Shortest)
		if p.kind == "Levit" {
			n = math.Floor(256.0 / 224 * n)
		}
		return shortest(n, n)
	case p.kind == "DPT":
		sy, sx := float64(s.Height)/float64(h), float64(s.Width)/float64(w)
		if p.keepRatio {
			if math.Abs(1-sx) < math.Abs(1-sy) {
				sy = sx
			} else {
				sx = sy
			}
		}
		round := func(v float64) int { return int(math.RoundToEven(v/float64(p.multiple))) * p.multiple }
		return round(sy * float64(h)), round(sx * float64(w))
	}
	return s.Height, s.Width
}

// tensor returns the input of an image, of shape [1,3,height,width].
func (p *imageProcessor) tensor(m *preprocess.Image) ([]float32, []int, error) {
	m, err := rgb(m)
	if err != nil {
		return nil, nil, err
	}
	if p.resize {
		h, w := p.target(m.Height, m.Width)
		if h < 1 || w < 1 || h > mostPixels/w {
			return nil, nil, fmt.Errorf("an image of %d×%d pixels would be resized to %d×%d, want 1 to %d pixels",
				m.Width, m.Height, w, h, mostPixels)
		}
		if h != m.Height || w != m.Width {
			if m, err = m.Resize(h, w, p.filter); err != nil {
				return nil, nil, err
			}
		}
		if p.kind == "ConvNext" && p.size.Shortest < 384 {
			if m, err = centered(m, p.size.Shortest, p.size.Shortest); err != nil {
				return nil, nil, err
			}
		}
	}
	if p.crop {
		if m, err = centered(m, p.cropSize.Height, p.cropSize.Width); err != nil {
			return nil, nil, err
		}
	}
	height, width := max(m.Height, p.pad.Height), max(m.Width, p.pad.Width)
	x := make([]float32, 3*height*width)
	for c := range 3 {
		from := c
		if p.flip {
			from = 2 - c
		}
		level := &p.levels[c]
		for y := range m.Height {
			row, in := x[(c*height+y)*width:][:m.Width], m.Pixels[y*m.Width*3:]
			for i := range row {
				row[i] = level[in[3*i+from]]
			}
		}
	}
	return x, []int{1, 3, height, width}, nil
}

// centered returns the middle of an image, padded with zeros where the image is smaller.
func centered(m *preprocess.Image, height, width int) (*preprocess.Image, error) {
	r, err := preprocess.NewImage(height, width, 3)
	if err != nil {
		return nil, err
	}
	// where the crop begins in the image: ⌊(image − crop)/2⌋
	floor := func(n int) int { return int(math.Floor(float64(n) / 2)) }
	top, left := floor(m.Height-height), floor(m.Width-width)
	if m.Height < height {
		top = -(height - m.Height + 1) / 2
	}
	if m.Width < width {
		left = -(width - m.Width + 1) / 2
	}
	for y := range height {
		if y+top < 0 || y+top >= m.Height {
			continue
		}
		from, to := max(0, -left), min(width, m.Width-left)
		copy(r.Pixels[(y*width+from)*3:(y*width+to)*3], m.Pixels[((y+top)*m.Width+from+left)*3:])
	}
	return r, nil
}
