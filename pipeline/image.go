package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// imageModel is a model with its processor.
type imageModel struct {
	session *onward.Session
	input   string
	process *imageProcessor
	labels  []string
}

// openImageModel opens the model and the settings of a folder.
func openImageModel(ctx context.Context, f *folder, stem string) (m imageModel, config *object, err error) {
	if config, err = f.json("config.json"); err != nil {
		return m, nil, err
	}
	if m.process, err = f.imageProcessor(); err != nil {
		return m, nil, err
	}
	if m.labels = config.labels(); config.err != nil {
		return m, nil, config.err
	}
	m.session, err = f.session(ctx, stem, func(s *onward.Session) error {
		example, err := preprocess.NewImage(480, 640, 3)
		if err == nil {
			try := m
			try.session = s
			_, err = try.run(ctx, example)
		}
		return err
	})
	return m, config, err
}

// Close releases the session.
func (m *imageModel) Close() error { return m.session.Close() }

// run returns the outputs for an image.
func (m *imageModel) run(ctx context.Context, image *preprocess.Image) (onward.Values, error) {
	x, shape, err := m.process.tensor(image)
	if err != nil {
		return nil, err
	}
	feed := onward.Values{}
	for _, in := range m.session.Inputs() {
		switch {
		case in.Name == "pixel_values" || len(in.Shape) == 4 && in.ElementType().Elem.IsFloat():
			feed[in.Name], err = asInput(in, x, shape...)
		case in.Name == "pixel_mask" && len(in.Shape) == 3:
			height, width := shape[2], shape[3]
			if h, w := in.Shape[1].Value, in.Shape[2].Value; h > 0 && w > 0 {
				if h > mostPixels/w {
					return nil, fmt.Errorf("the model has the input %s, want at most %d pixels", in, mostPixels)
				}
				height, width = int(h), int(w)
			}
			ones := make([]int64, height*width)
			for i := range ones {
				ones[i] = 1
			}
			feed[in.Name], err = asInput(in, ones, 1, height, width)
		default:
			return nil, fmt.Errorf("the model has the input %s, want pixel_values and pixel_mask alone", in)
		}
		if err != nil {
			return nil, err
		}
	}
	return m.session.Run(ctx, feed, nil)
}

// output returns an output of a rank, by one of its names, or else the first of that rank.
func (m *imageModel) output(out onward.Values, rank int, names ...string) ([]float32, []int, error) {
	for _, a := range m.session.Outputs() {
		names = append(names, a.Name)
	}
	for _, name := range names {
		t, ok := out[name].(*tensor.Tensor)
		if !ok || t.Rank() != rank || t.Dim(0) != 1 || slices.Contains(t.Shape(), 0) || !t.DType().IsFloat() {
			continue
		}
		data, err := asFloats(t)
		return data, t.Shape(), err
	}
	return nil, nil, fmt.Errorf("the model has the outputs %v, want one of floating-point numbers with rank %d",
		m.session.Outputs(), rank)
}

// label returns the name of a class.
func (m *imageModel) label(class int) string {
	if class < len(m.labels) && m.labels[class] != "" {
		return m.labels[class]
	}
	return "LABEL_" + strconv.Itoa(class)
}

// ImageClassifier classifies images by a model folder of image classification, such as ViT or
// ConvNeXT. It is safe for use by several goroutines.
type ImageClassifier struct {
	imageModel
	function string // of scores, as of TextClassifier
}

// OpenImageClassifier opens a model folder with config.json and preprocessor_config.json. opts may
// be nil.
func OpenImageClassifier(ctx context.Context, dir string, opts *Options) (*ImageClassifier, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, config, err := openImageModel(ctx, f, "model")
	if err != nil {
		return nil, f.wrap(err)
	}
	return &ImageClassifier{m, defaultFunction(config, len(m.labels))}, nil
}

// Classify returns the classes of an image, the likeliest first: at most n of them, or all if n is
// 0. Scores are probabilities: of all classes together, or of each by itself if labels apply
// independently. Those of a regression are the outputs of the model.
func (c *ImageClassifier) Classify(ctx context.Context, m *preprocess.Image, n int) ([]Label, error) {
	out, err := c.run(ctx, m)
	if err != nil {
		return nil, err
	}
	logits, _, err := c.output(out, 2, "logits")
	if err != nil {
		return nil, err
	}
	apply(c.function, logits)
	list := make([]Label, len(logits))
	for i, v := range logits {
		list[i] = Label{c.label(i), v}
	}
	slices.SortStableFunc(list, func(a, b Label) int { return cmp.Compare(b.Score, a.Score) })
	if n > 0 {
		list = list[:min(n, len(list))]
	}
	return list, nil
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// DepthMap holds a number for each pixel of an image, in rows from the top.
type DepthMap struct {
	Height, Width int
	Values        []float32
}

// DepthEstimator estimates the depth of each pixel by a model folder such as DPT or Depth Anything.
// It is safe for use by several goroutines.
type DepthEstimator struct{ imageModel }

// OpenDepthEstimator opens a model folder with preprocessor_config.json. opts may be nil.
func OpenDepthEstimator(ctx context.Context, dir string, opts *Options) (*DepthEstimator, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := openImageModel(ctx, f, "model")
	return &DepthEstimator{m}, f.wrap(err)
}

// Estimate returns what the model says of each pixel, by cubic interpolation: depths or inverse
// depths, metric or relative, as the model was trained.
func (d *DepthEstimator) Estimate(ctx context.Context, m *preprocess.Image) (*DepthMap, error) {
	out, err := d.run(ctx, m)
	if err != nil {
		return nil, err
	}
	x, shape, err := d.output(out, 3, "predicted_depth")
	if err != nil {
		return nil, err
	}
	return &DepthMap{m.Height, m.Width, interpolate(x, shape[1], shape[2], m.Height, m.Width, true)}, nil
}

// ClassMap holds the class of each pixel of an image, in rows from the top.
type ClassMap struct {
	Height, Width int
	Classes       []int32
	Labels        []string // by class
}

// Segmenter finds the class of each pixel by a model folder of semantic segmentation, such as
// SegFormer. It is safe for use by several goroutines.
type Segmenter struct{ imageModel }

// OpenSegmenter opens a model folder with config.json and preprocessor_config.json. opts may be
// nil.
func OpenSegmenter(ctx context.Context, dir string, opts *Options) (*Segmenter, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := openImageModel(ctx, f, "model")
	if err != nil {
		return nil, f.wrap(err)
	}
	for _, out := range m.session.Outputs() {
		if out.Name == "pred_masks" || out.Name == "masks_queries_logits" {
			err := fmt.Errorf("the output %s is that of instance or panoptic segmentation, which is not supported",
				out.Name)
			return nil, errors.Join(f.wrap(err), m.Close())
		}
	}
	return &Segmenter{m}, nil
}

// Segment returns the class with the largest logit at each pixel. Logits are interpolated linearly.
func (s *Segmenter) Segment(ctx context.Context, m *preprocess.Image) (*ClassMap, error) {
	out, err := s.run(ctx, m)
	if err != nil {
		return nil, err
	}
	x, shape, err := s.output(out, 4, "logits")
	if err != nil {
		return nil, err
	}
	r := &ClassMap{Height: m.Height, Width: m.Width, Classes: make([]int32, m.Height*m.Width)}
	best, plane := []float32(nil), shape[2]*shape[3]
	for class := range shape[1] {
		r.Labels = append(r.Labels, s.label(class))
		large := interpolate(x[class*plane:(class+1)*plane], shape[2], shape[3], m.Height, m.Width, false)
		if class == 0 {
			best = large
			continue
		}
		for i, v := range large {
			if v > best[i] {
				best[i], r.Classes[i] = v, int32(class)
			}
		}
	}
	return r, nil
}

// BackgroundRemover makes the background of images transparent by a model folder such as RMBG or
// ISNet. It is safe for use by several goroutines.
type BackgroundRemover struct{ imageModel }

// OpenBackgroundRemover opens a model folder with preprocessor_config.json. opts may be nil.
func OpenBackgroundRemover(ctx context.Context, dir string, opts *Options) (*BackgroundRemover, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := openImageModel(ctx, f, "model")
	return &BackgroundRemover{m}, f.wrap(err)
}

// Remove returns the image in RGBA: the model's output, or its sigmoid if it exceeds 0 to 1, is
// alpha.
func (b *BackgroundRemover) Remove(ctx context.Context, m *preprocess.Image) (*preprocess.Image, error) {
	out, err := b.run(ctx, m)
	if err != nil {
		return nil, err
	}
	x, shape, err := b.output(out, 4)
	if err != nil {
		return nil, err
	}
	if shape[1] != 1 {
		return nil, fmt.Errorf("the model returned shape %v, want [1,1,height,width]", shape)
	}
	alpha, err := preprocess.NewImage(shape[2], shape[3], 1)
	if err != nil {
		return nil, err
	}
	const rounding = 1e-5
	logits := slices.Min(x) < -rounding || slices.Max(x) > 1+rounding
	for i, v := range x {
		if logits {
			v = sigmoid(v)
		}
		alpha.Pixels[i] = uint8(255 * min(max(v, 0), 1))
	}
	color, err := rgb(m)
	if err != nil {
		return nil, err
	}
	if alpha, err = alpha.Resize(m.Height, m.Width, preprocess.Bilinear); err != nil {
		return nil, err
	}
	r, err := preprocess.NewImage(m.Height, m.Width, 4)
	if err != nil {
		return nil, err
	}
	for i, a := range alpha.Pixels {
		copy(r.Pixels[4*i:], color.Pixels[3*i:3*i+3])
		r.Pixels[4*i+3] = a
	}
	return r, nil
}

// interpolate returns a map in another size, linearly or cubically, as torch's interpolate does
// without align_corners and antialias.
func interpolate(x []float32, h, w, height, width int, cubic bool) []float32 {
	rows, columns := torchTaps(h, height, cubic), torchTaps(w, width, cubic)
	r := make([]float32, height*width)
	lines := make([][]float32, h) // interpolated along the width
	for y, row := range rows {
		out := r[y*width : (y+1)*width]
		for k, at := range row.at[:row.n] {
			if lines[at] == nil {
				line := make([]float32, width)
				in := x[at*w : (at+1)*w]
				for i, c := range columns {
					for k, at := range c.at[:c.n] {
						line[i] += in[at] * c.weight[k]
					}
				}
				lines[at] = line
			}
			for i, v := range lines[at] {
				out[i] += v * row.weight[k]
			}
		}
		if row.at[0] > 0 {
			lines[row.at[0]-1] = nil // no longer needed
		}
	}
	return r
}

// torchTap holds the elements that one element of a result reads.
type torchTap struct {
	n      int
	at     [4]int
	weight [4]float32
}

func torchTaps(in, out int, cubic bool) []torchTap {
	taps, scale := make([]torchTap, out), float32(in)/float32(out)
	for i := range taps {
		x := scale*(float32(i)+0.5) - 0.5
		if !cubic {
			x = max(x, 0)
		}
		first := int(math.Floor(float64(x)))
		f := x - float32(first)
		if !cubic {
			taps[i] = torchTap{2, [4]int{min(first, in-1), min(first+1, in-1)}, [4]float32{1 - f, f}}
			continue
		}
		taps[i] = torchTap{n: 4, weight: cubicWeights(f)}
		for k := range 4 {
			taps[i].at[k] = min(max(first-1+k, 0), in-1)
		}
	}
	return taps
}
