package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// ObjectDetectorOptions are the options of [OpenObjectDetector].
type ObjectDetectorOptions struct {
	Options
	// Threshold is the least score. Default: 0.5 for the models of transformers, else 0.25.
	Threshold float32
	// Overlap is the intersection over union beyond which the box with the lower score of a class
	// is dropped, for models whose graph does not do that. Default: 0.45.
	Overlap float32
	// Labels are the names of the classes. Default: those of config.json or the model's metadata.
	Labels []string
	// Size is the height and width of the images for a YOLO model with free dimensions. Default:
	// that of its metadata imgsz, else 640.
	Size int
}

// ObjectDetector finds objects in images. It is safe for use by several goroutines.
type ObjectDetector struct {
	imageModel
	kind    detectorKind
	opts    ObjectDetectorOptions
	sigmoid bool // classes apply independently
	top     int  // scores of sigmoids that count, or 0 for as many as there are queries
	size    [2]int
}

// detectorKind is the form of a detector's outputs.
type detectorKind int

const (
	detectQueries  detectorKind = iota // logits and pred_boxes: DETR and its relatives
	detectGrid                         // [1,4+classes,boxes]: YOLO v8 to v11
	detectObjects                      // [1,boxes,5+classes]: YOLO v5 and v7
	detectFinal                        // [1,boxes,6]: YOLO v10 and others with selection in the graph
	detectSeparate                     // boxes, labels and scores: torchvision's SSD, RetinaNet, Faster R-CNN
)

// Object is an object in an image.
type Object struct {
	Label    string
	Score    float32
	Min, Max Point // corners of its box
}

// OpenObjectDetector opens a folder with a detector:
//
//   - DETR, YOLOS and their relatives as transformers has them, with config.json and
//     preprocessor_config.json
//   - YOLO v5 to v11 as ultralytics exports them, in the only ONNX file; metadata hold the labels
//   - SSD, RetinaNet and others as torchvision exports them, in the only ONNX file
//
// opts may be nil.
func OpenObjectDetector(ctx context.Context, dir string, opts *ObjectDetectorOptions) (*ObjectDetector, error) {
	d := &ObjectDetector{}
	if opts != nil {
		d.opts = *opts
	}
	f, err := openFolder(dir, &d.opts.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := d.open(ctx, f); err != nil {
		if d.session != nil {
			err = errors.Join(err, d.session.Close())
		}
		return nil, f.wrap(err)
	}
	return d, nil
}

func (d *ObjectDetector) open(ctx context.Context, f *folder) error {
	orElse := func(v *float32, to float32) {
		if *v == 0 {
			*v = to
		}
	}
	orElse(&d.opts.Overlap, 0.45)
	if f.has("config.json") {
		orElse(&d.opts.Threshold, 0.5)
		m, config, err := openImageModel(ctx, f, "model")
		d.imageModel = m
		if err != nil {
			return err
		}
		var kind string
		config.get("model_type", &kind)
		switch kind {
		case "detr", "yolos", "table-transformer":
		case "conditional_detr", "deformable_detr", "dab-detr":
			d.sigmoid, d.top = true, 100
		case "rt_detr", "rt_detr_v2", "d_fine":
			d.sigmoid = true
		default:
			return fmt.Errorf("config.json: detectors of model_type %q are not supported", kind)
		}
		d.named()
		return nil
	}
	orElse(&d.opts.Threshold, 0.25)
	name, err := d.file(f)
	if err != nil {
		return err
	}
	if d.session, err = f.openSession(ctx, name); err != nil {
		return err
	}
	in := d.session.Inputs()
	if len(in) != 1 || len(in[0].Shape) < 3 || in[0].ElementType().Elem != tensor.TypeFloat32 {
		return fmt.Errorf("%s has the inputs %v, want one image of float32", name, in)
	}
	d.input = in[0].Name
	meta := d.session.Metadata().Custom
	d.labels = yoloNames(meta["names"])
	d.named()
	d.size = [2]int{640, 640}
	if json.Unmarshal([]byte(meta["imgsz"]), &d.size) != nil || d.size[0] <= 0 || d.size[1] <= 0 {
		d.size = [2]int{640, 640}
	}
	if d.opts.Size > 0 {
		d.size = [2]int{d.opts.Size, d.opts.Size}
	}
	for i, dim := range in[0].Shape[len(in[0].Shape)-2:] {
		if dim.Value > 0 {
			d.size[i] = int(dim.Value)
		}
	}
	if d.size[0] > mostPixels/d.size[1] {
		return fmt.Errorf("%s: images of %v pixels exceed the limit of %d", name, d.size, mostPixels)
	}
	return d.setKind(len(in[0].Shape))
}

// file returns the ONNX file of a detector without config.json.
func (d *ObjectDetector) file(f *folder) (string, error) {
	if d.opts.Variant != "" {
		return f.model("model", d.opts.Variant)
	}
	list, err := fs.Glob(f.fs, "*.onnx")
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("there are %d ONNX files, want one, or name it in Variant", len(list))
	}
	if err != nil {
		return "", err
	}
	return list[0], nil
}

// named replaces labels by those of the options.
func (d *ObjectDetector) named() {
	if d.opts.Labels != nil {
		d.labels = d.opts.Labels
	}
}

var errNoBoxes = errors.New("the outputs of the model are those of no supported detector")

var yoloName = regexp.MustCompile(`(\d+)\s*:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")`)

// yoloNames returns the labels of the metadata "names": a dict of Python.
func yoloNames(text string) []string {
	var names []string
	for _, m := range yoloName.FindAllStringSubmatch(text, 1<<16) {
		if n, err := strconv.Atoi(m[1]); err == nil && n < 1<<16 {
			for len(names) <= n {
				names = append(names, "")
			}
			names[n] = m[2] + m[3]
		}
	}
	return names
}

// setKind finds the form of the outputs.
func (d *ObjectDetector) setKind(rank int) error {
	out := d.session.Outputs()
	if len(out) >= 3 && len(out[0].Shape) == 2 {
		d.kind = detectSeparate
		return nil
	}
	if rank != 4 || len(out) == 0 || len(out[0].Shape) != 3 {
		return fmt.Errorf("%w: %v", errNoBoxes, out)
	}
	rows, columns := out[0].Shape[1].Value, out[0].Shape[2].Value
	classes := int64(len(d.labels))
	switch {
	case columns == 6 && (rows < 0 || rows <= 1000) && classes != 1 && classes != 2:
		d.kind = detectFinal
	case classes > 0 && rows == 4+classes || rows > 0 && rows < columns:
		d.kind = detectGrid
	case classes > 0 && columns == 5+classes || columns > 5 && rows > columns:
		d.kind = detectObjects
	case rows > 4:
		d.kind = detectGrid
	case columns > 5:
		d.kind = detectObjects
	default:
		return fmt.Errorf("%w: %v", errNoBoxes, out)
	}
	return nil
}

// Detect returns the objects in an image, those with the highest scores first.
func (d *ObjectDetector) Detect(ctx context.Context, m *preprocess.Image) ([]Object, error) {
	var found []candidate
	var err error
	if d.process != nil {
		found, err = d.queries(ctx, m)
	} else {
		found, err = d.boxes(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	byScore(found)
	if d.kind == detectGrid || d.kind == detectObjects {
		found = suppress(found, d.opts.Overlap)
	}
	objects := make([]Object, len(found))
	for i, c := range found {
		objects[i] = Object{d.label(c.class), c.score, Point{c.box[0], c.box[1]}, Point{c.box[2], c.box[3]}}
	}
	return objects, nil
}

// candidate is a box with its class.
type candidate struct {
	box   [4]float32 // left, top, right, bottom
	class int
	score float32
}

// byScore sorts boxes so that the highest score is first.
func byScore(list []candidate) {
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
}

// queries runs a model of transformers.
func (d *ObjectDetector) queries(ctx context.Context, m *preprocess.Image) ([]candidate, error) {
	out, err := d.run(ctx, m)
	if err != nil {
		return nil, err
	}
	logits, shape, err := d.output(out, 3, "logits")
	if err != nil {
		return nil, err
	}
	boxes, boxShape, err := d.output(out, 3, "pred_boxes")
	if err != nil {
		return nil, err
	}
	n, classes := shape[1], shape[2]
	if boxShape[1] != n || boxShape[2] != 4 {
		return nil, fmt.Errorf("logits have shape %v and boxes %v, want [1,%d,4]", shape, boxShape, n)
	}
	w, h := float32(m.Width), float32(m.Height)
	var found []candidate
	for i := range n {
		b, row := boxes[4*i:4*i+4], logits[i*classes:(i+1)*classes]
		box := [4]float32{(b[0] - 0.5*b[2]) * w, (b[1] - 0.5*b[3]) * h, (b[0] + 0.5*b[2]) * w, (b[1] + 0.5*b[3]) * h}
		if d.sigmoid {
			for c, v := range row {
				if s := sigmoid(v); s > d.opts.Threshold {
					found = append(found, candidate{box, c, s})
				}
			}
			continue
		}
		softmax(row)
		row = row[:classes-1] // the last class is that of no object
		if len(row) == 0 {
			continue
		}
		if c := argmax(row); row[c] > d.opts.Threshold {
			found = append(found, candidate{box, c, row[c]})
		}
	}
	if most := cmp.Or(d.top, n); d.sigmoid && len(found) > most {
		byScore(found)
		found = found[:most]
	}
	return found, nil
}

// boxes runs a model without processor.
func (d *ObjectDetector) boxes(ctx context.Context, m *preprocess.Image) ([]candidate, error) {
	m, err := rgb(m)
	if err != nil {
		return nil, err
	}
	small, place := m, placement{1, 0, 0}
	if d.kind != detectSeparate || d.session.Inputs()[0].Shape[len(d.session.Inputs()[0].Shape)-1].Value > 0 {
		if small, place, err = letterbox(m, d.size[0], d.size[1]); err != nil {
			return nil, err
		}
	}
	x := make([]float32, 3*small.Height*small.Width)
	plane := small.Height * small.Width
	for i, v := range small.Pixels {
		x[i%3*plane+i/3] = float32(v) / 255
	}
	shape := []int{1, 3, small.Height, small.Width}
	if len(d.session.Inputs()[0].Shape) == 3 {
		shape = shape[1:]
	}
	t, err := asInput(d.session.Inputs()[0], x, shape...)
	if err != nil {
		return nil, err
	}
	out, err := d.session.Run(ctx, onward.Values{d.input: t}, nil)
	if err != nil {
		return nil, err
	}
	var found []candidate
	if d.kind == detectSeparate {
		found, err = d.separate(out)
	} else {
		found, err = d.grid(out)
	}
	for i := range found {
		found[i].box = place.original(found[i].box, m.Height, m.Width)
	}
	return found, err
}

// grid returns the boxes of YOLO's outputs.
func (d *ObjectDetector) grid(out onward.Values) ([]candidate, error) {
	x, shape, err := d.output(out, 3)
	if err != nil {
		return nil, err
	}
	n, fields, step := shape[1], shape[2], 1
	if d.kind == detectGrid { // fields of a box are far from each other
		n, fields, step = shape[2], shape[1], shape[2]
	}
	first := map[detectorKind]int{detectGrid: 4, detectObjects: 5, detectFinal: 6}[d.kind]
	if fields < first || d.kind != detectFinal && fields == first {
		return nil, fmt.Errorf("%w: shape %v", errNoBoxes, shape)
	}
	var found []candidate
	for i := range n {
		at := i * fields
		if d.kind == detectGrid {
			at = i
		}
		field := func(k int) float32 { return x[at+k*step] }
		if d.kind == detectFinal {
			if s, class := field(4), field(5); s > d.opts.Threshold && class >= 0 && class < 1<<31 {
				found = append(found, candidate{[4]float32{field(0), field(1), field(2), field(3)}, int(class), s})
			}
			continue
		}
		class, score := 0, field(first)
		for k := first + 1; k < fields; k++ {
			if v := field(k); v > score {
				class, score = k-first, v
			}
		}
		if d.kind == detectObjects {
			score *= field(4)
		}
		if score > d.opts.Threshold {
			cx, cy, w, h := field(0), field(1), field(2), field(3)
			found = append(found, candidate{[4]float32{cx - w/2, cy - h/2, cx + w/2, cy + h/2}, class, score})
		}
	}
	return found, nil
}

// separate returns the boxes of torchvision's outputs: boxes [n,4] in pixels, and labels and scores
// [n], in any order.
func (d *ObjectDetector) separate(out onward.Values) ([]candidate, error) {
	var boxes, scores []float32
	var labels []int64
	for _, a := range d.session.Outputs() {
		t, ok := out[a.Name].(*tensor.Tensor)
		if !ok {
			continue
		}
		switch {
		case t.Rank() == 2 && t.Dim(1) == 4 && t.DType() == tensor.TypeFloat32:
			boxes = tensor.MustData[float32](t)
		case t.Rank() == 1 && t.DType() == tensor.TypeFloat32:
			scores = tensor.MustData[float32](t)
		case t.Rank() == 1 && t.DType() == tensor.TypeInt64:
			labels = tensor.MustData[int64](t)
		}
	}
	if len(boxes) != 4*len(scores) || len(labels) != len(scores) {
		return nil, fmt.Errorf("%w: %d numbers of boxes, %d scores, %d labels", errNoBoxes, len(boxes), len(scores),
			len(labels))
	}
	var found []candidate
	for i, s := range scores {
		if s > d.opts.Threshold && labels[i] >= 0 {
			found = append(found, candidate{[4]float32(boxes[4*i : 4*i+4]), int(labels[i]), s})
		}
	}
	return found, nil
}

// placement says where letterbox put an image.
type placement struct {
	scale     float64
	left, top int
}

// letterbox resizes an image at its aspect ratio, and pads it with gray to a size, as ultralytics
// does.
func letterbox(m *preprocess.Image, height, width int) (*preprocess.Image, placement, error) {
	scale := min(float64(height)/float64(m.Height), float64(width)/float64(m.Width))
	h := min(max(int(math.RoundToEven(float64(m.Height)*scale)), 1), height)
	w := min(max(int(math.RoundToEven(float64(m.Width)*scale)), 1), width)
	small, err := m.ResizeCV(h, w, preprocess.InterLinear)
	if err != nil {
		return nil, placement{}, err
	}
	p := placement{scale, (width - w) / 2, (height - h) / 2}
	r, err := small.Pad(p.top, height-h-p.top, p.left, width-w-p.left, 114)
	return r, p, err
}

// original returns a box in the original image, within it.
func (p placement) original(box [4]float32, height, width int) [4]float32 {
	for i, v := range box {
		offset, limit := p.left, width
		if i%2 == 1 {
			offset, limit = p.top, height
		}
		box[i] = min(max((v-float32(offset))/float32(p.scale), 0), float32(limit))
	}
	return box
}

// suppress drops boxes that overlap one of their class with a higher score. The boxes are sorted by
// score.
func suppress(list []candidate, overlap float32) []candidate {
	const most = 300 // boxes that are kept, as in ultralytics
	var kept []candidate
	area := func(b [4]float32) float32 { return (b[2] - b[0]) * (b[3] - b[1]) }
	for _, c := range list {
		covered := slices.ContainsFunc(kept, func(k candidate) bool {
			w := max(0, min(c.box[2], k.box[2])-max(c.box[0], k.box[0]))
			h := max(0, min(c.box[3], k.box[3])-max(c.box[1], k.box[1]))
			return k.class == c.class && w*h > overlap*(area(c.box)+area(k.box)-w*h)
		})
		if !covered {
			if kept = append(kept, c); len(kept) == most {
				break
			}
		}
	}
	return kept
}
