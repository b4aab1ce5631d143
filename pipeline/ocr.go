package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// TextRecognizerOptions are the options of [OpenTextRecognizer]. The defaults are those of
// RapidOCR.
type TextRecognizerOptions struct {
	Options
	// Detection, Direction and Recognition name the ONNX files in the folder. Default: the only
	// ones whose names contain "det", "cls" and "rec". Direction is optional.
	Detection, Direction, Recognition string
	// Threshold is the least probability of a pixel of text. Default: 0.3.
	Threshold float32
	// BoxScore is the least mean probability of the pixels of a box. Default: 0.5.
	BoxScore float64
	// Unclip is by how much a box grows: area·Unclip/perimeter pixels on each side. Default: 1.6.
	Unclip float64
	// TextScore is the least score of a line. Default: 0.5. Negative: every line.
	TextScore float64
}

// TextRecognizer reads the text in images by the models of PP-OCR: one finds lines of text, one
// finds lines that are upside down, and one reads each line. It is safe for use by several
// goroutines.
type TextRecognizer struct {
	detect, turn, read     *onward.Session // turn may be nil
	detectIn, turnIn       string
	readIn                 string
	characters             []string // by class; the first is the blank
	db                     detection
	score                  float64
	detectLevel, readLevel *[256]float32
}

// TextLine is a line of text in an image.
type TextLine struct {
	Text  string
	Score float64  // mean probability of the characters, 0 to 1
	Box   [4]Point // corners, clockwise from the upper left
}

// OpenTextRecognizer opens a folder with the ONNX files of PP-OCR, as RapidOCR has them. The
// characters are in the metadata "character" of the model that reads lines, or else in the only
// file *.txt of the folder, one a line. opts may be nil.
func OpenTextRecognizer(ctx context.Context, dir string, opts *TextRecognizerOptions) (*TextRecognizer, error) {
	var o TextRecognizerOptions
	if opts != nil {
		o = *opts
	}
	f, err := openFolder(dir, &o.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := openTextRecognizer(ctx, f, &o)
	return r, f.wrap(err)
}

func openTextRecognizer(ctx context.Context, f *folder, o *TextRecognizerOptions) (*TextRecognizer, error) {
	orElse := func(v, d float64) float64 {
		if v == 0 {
			return d
		}
		return v
	}
	r := &TextRecognizer{
		db: detection{threshold: float32(orElse(float64(o.Threshold), 0.3)), score: orElse(o.BoxScore, 0.5),
			unclip: orElse(o.Unclip, 1.6), most: 1000},
		score: orElse(o.TextScore, 0.5),
		// the arithmetic of NumPy: (v*(1/255) - 0.5)/0.5 with float64, and (v/255 - 0.5)/0.5
		detectLevel: levels(func(v float32) float32 {
			return float32((float64(v*float32(1/255.0)) - 0.5) / 0.5)
		}),
		readLevel: levels(func(v float32) float32 { return (v/255 - 0.5) / 0.5 }),
	}
	var err error
	for _, m := range []struct {
		session     **onward.Session
		input       *string
		named, part string
	}{{&r.detect, &r.detectIn, o.Detection, "det"}, {&r.turn, &r.turnIn, o.Direction, "cls"},
		{&r.read, &r.readIn, o.Recognition, "rec"}} {
		name := m.named
		if name == "" {
			if name, err = f.only(m.part, ".onnx"); err != nil {
				break
			}
			if name == "" && m.part == "cls" {
				continue
			}
			if name == "" {
				err = fmt.Errorf("there is no file *%s*.onnx", m.part)
				break
			}
		}
		if *m.session, err = f.openSession(ctx, name); err != nil {
			break
		}
		in := (*m.session).Inputs()
		if len(in) != 1 || len((*m.session).Outputs()) != 1 {
			err = fmt.Errorf("%s has the inputs %v and outputs %v, want one each", name, in, (*m.session).Outputs())
			break
		}
		*m.input = in[0].Name
	}
	if err == nil {
		err = r.loadCharacters(f)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// only returns the only file whose name contains a part and ends with a suffix, or "".
func (f *folder) only(part, suffix string) (string, error) {
	list, err := f.list(".")
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range list {
		if strings.Contains(e.Name(), part) && strings.HasSuffix(e.Name(), suffix) && f.has(e.Name()) {
			found = append(found, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several files are named *%s*%s: %s; name one in the options", part, suffix,
		strings.Join(found, ", "))
}

// loadCharacters reads the characters of the classes.
func (r *TextRecognizer) loadCharacters(f *folder) error {
	text, ok := r.read.Metadata().Custom["character"]
	if !ok {
		name, err := f.only("", ".txt")
		if err != nil {
			return err
		}
		if name == "" {
			return errors.New(`the model has no metadata "character", and the folder no file *.txt of characters`)
		}
		data, err := f.read(name, f.opts.maxFile())
		if err != nil {
			return err
		}
		text = string(data)
	}
	text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	r.characters = append(append([]string{""}, strings.Split(text, "\n")...), " ")
	out := r.read.Outputs()[0]
	if n := len(out.Shape); n != 3 || out.Shape[2].Value >= 0 && int(out.Shape[2].Value) != len(r.characters) {
		return fmt.Errorf("the model that reads lines returns %s, want [lines, steps, %d] for its %d characters, the "+
			"blank and the space", out, len(r.characters), len(r.characters)-2)
	}
	return nil
}

// Close releases the sessions.
func (r *TextRecognizer) Close() error {
	var errs []error
	for _, s := range []*onward.Session{r.detect, r.turn, r.read} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Recognize returns the lines of text in an image, from top to bottom and from left to right.
func (r *TextRecognizer) Recognize(ctx context.Context, m *preprocess.Image) ([]TextLine, error) {
	page, err := newPage(m)
	if err != nil {
		return nil, err
	}
	boxes, err := r.findBoxes(ctx, page.image)
	if err != nil {
		return nil, err
	}
	crops := make([]*preprocess.Image, len(boxes))
	if err := parallel(len(boxes), func(i int) (err error) {
		crops[i], err = cropBox(page.image, boxes[i])
		return err
	}); err != nil {
		return nil, err
	}
	order := byRatio(crops)
	if r.turn != nil {
		if err := r.upright(ctx, crops, order); err != nil {
			return nil, err
		}
	}
	lines := make([]TextLine, len(boxes))
	for batch := range slices.Chunk(order, batchSize) {
		if err := r.readLines(ctx, crops, batch, lines); err != nil {
			return nil, err
		}
	}
	var found []TextLine
	for i, l := range lines {
		if strings.TrimSpace(l.Text) != "" && l.Score >= r.score {
			l.Box = page.original(boxes[i])
			found = append(found, l)
		}
	}
	return found, nil
}

// batchSize is the number of lines of a run. The width of a batch is that of its widest line, and
// the models see the padding: other sizes have slightly other results.
const batchSize = 6

// page is an image in the size in which text is looked for.
type page struct {
	image          *preprocess.Image
	scaleX, scaleY float32 // pixels of the original by those of image
	top            int     // rows added above and below
	height, width  int     // of the original
}

// newPage limits the sides of an image to 30 and 2000 pixels, and pads lines to a height.
func newPage(m *preprocess.Image) (*page, error) {
	const shortest, longest, lineRatio = 30, 2000, 8
	if m == nil || m.Height <= 0 || m.Width <= 0 || len(m.Pixels) != m.Height*m.Width*m.Channels ||
		m.Channels != 1 && m.Channels != 3 && m.Channels != 4 {
		return nil, errors.New("text recognizer: want an image with 1, 3 or 4 channels and all of its pixels")
	}
	p := &page{opaque(m), 1, 1, 0, m.Height, m.Width}
	var err error
	for _, limit := range []int{longest, shortest} {
		h, w := p.image.Height, p.image.Width
		side := max(h, w)
		if limit == shortest {
			side = min(h, w)
		}
		if limit == longest && side <= limit || limit == shortest && side >= limit {
			continue
		}
		ratio := float64(limit) / float64(side)
		newH, newW := multipleOf32(int(float64(h)*ratio)), multipleOf32(int(float64(w)*ratio))
		if newH == 0 || newW == 0 {
			return nil, fmt.Errorf("text recognizer: image of %d×%d pixels is too narrow", m.Width, m.Height)
		}
		if p.image, err = p.image.ResizeCV(newH, newW, preprocess.InterLinear); err != nil {
			return nil, err
		}
		p.scaleY, p.scaleX = float32(float64(h)/float64(newH)), float32(float64(w)/float64(newW))
	}
	if h, w := p.image.Height, p.image.Width; h <= shortest || float64(w)/float64(h) > lineRatio {
		p.top = max(2*max(w/lineRatio, shortest)-h, h-2*max(w/lineRatio, shortest)) / 2
		p.image, err = p.image.Pad(p.top, p.top, 0, 0, 0)
	}
	return p, err
}

// multipleOf32 rounds to a multiple of 32, and halves to the even multiple.
func multipleOf32(n int) int { return int(math.RoundToEven(float64(n)/32)) * 32 }

// original returns a box in the coordinates of the original.
func (p *page) original(box [4]Point) [4]Point {
	for i, c := range box {
		box[i] = Point{min(max(c.X*p.scaleX, 0), float32(p.width)),
			min(max((c.Y-float32(p.top))*p.scaleY, 0), float32(p.height))}
	}
	return box
}

// mostPixels bounds the size of a page as the model sees it.
const mostPixels = 1 << 25

// findBoxes returns the quadrilaterals of lines of text.
func (r *TextRecognizer) findBoxes(ctx context.Context, m *preprocess.Image) ([][4]Point, error) {
	const shortest = 736 // of the sides that the model sees
	ratio := max(1, float64(shortest)/float64(min(m.Height, m.Width)))
	h, w := multipleOf32(int(float64(m.Height)*ratio)), multipleOf32(int(float64(m.Width)*ratio))
	if h*w > mostPixels {
		return nil, fmt.Errorf("text recognizer: a page of %d×%d pixels is too narrow: the model would see %d×%d, "+
			"beyond the limit of %d", m.Width, m.Height, w, h, mostPixels)
	}
	small, err := m.ResizeCV(h, w, preprocess.InterLinear)
	if err != nil {
		return nil, err
	}
	x := make([]float32, 3*h*w)
	planes(x, small, w, r.detectLevel)
	probs, shape, err := runFloat(ctx, r.detect, r.detectIn, x, 1, 3, h, w)
	if err != nil {
		return nil, err
	}
	if len(shape) != 4 || shape[2] <= 0 || shape[3] <= 0 || len(probs) < shape[2]*shape[3] {
		return nil, fmt.Errorf("text recognizer: the model that finds text returned shape %v, want [1,1,height,width]",
			shape)
	}
	return r.db.boxes(probs[:shape[2]*shape[3]], shape[2], shape[3], m.Height, m.Width), nil
}

// runFloat runs a model with one float32 input and returns its only output.
func runFloat(ctx context.Context, s *onward.Session, input string, x []float32,
	shape ...int) ([]float32, []int, error) {
	t, err := tensor.New(x, shape...)
	if err != nil {
		return nil, nil, err
	}
	out, err := s.Run(ctx, onward.Values{input: t}, nil)
	if err != nil {
		return nil, nil, err
	}
	y, ok := out[s.Outputs()[0].Name].(*tensor.Tensor)
	if !ok {
		return nil, nil, fmt.Errorf("output %s is not a tensor", s.Outputs()[0].Name)
	}
	data, err := tensor.Data[float32](y)
	return data, y.Shape(), err
}

// byRatio returns the indices of images by the ratio of width to height.
func byRatio(list []*preprocess.Image) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	ratio := func(i int) float64 { return float64(list[i].Width) / float64(list[i].Height) }
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := ratio(a), ratio(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return order
}

// lineHeight is the height of lines in the models.
const lineHeight = 48

// batch returns the input of lines, resized to the height and at most a width, and padded by 0.
func (r *TextRecognizer) batch(crops []*preprocess.Image, indices []int, width int) ([]float32, error) {
	x := make([]float32, len(indices)*3*lineHeight*width)
	err := parallel(len(indices), func(i int) error {
		m := crops[indices[i]]
		w := min(width, int(math.Ceil(lineHeight*(float64(m.Width)/float64(m.Height)))))
		line, err := m.ResizeCV(lineHeight, w, preprocess.InterLinear)
		if err == nil {
			planes(x[i*3*lineHeight*width:(i+1)*3*lineHeight*width], line, width, r.readLevel)
		}
		return err
	})
	return x, err
}

// upright turns lines that are upside down.
func (r *TextRecognizer) upright(ctx context.Context, crops []*preprocess.Image, order []int) error {
	const width, least = 192, 0.9
	for batch := range slices.Chunk(order, batchSize) {
		x, err := r.batch(crops, batch, width)
		if err != nil {
			return err
		}
		y, shape, err := runFloat(ctx, r.turn, r.turnIn, x, len(batch), 3, lineHeight, width)
		if err != nil {
			return err
		}
		if len(y) != 2*len(batch) {
			return fmt.Errorf("text recognizer: the model of directions returned shape %v, want [%d,2]", shape,
				len(batch))
		}
		for i, at := range batch {
			if y[2*i+1] > y[2*i] && y[2*i+1] > least {
				crops[at] = upsideDown(crops[at])
			}
		}
	}
	return nil
}

func upsideDown(m *preprocess.Image) *preprocess.Image {
	r := &preprocess.Image{Height: m.Height, Width: m.Width, Channels: 3, Pixels: make([]uint8, len(m.Pixels))}
	for i := 0; i < len(m.Pixels); i += 3 {
		copy(r.Pixels[len(m.Pixels)-3-i:][:3], m.Pixels[i:])
	}
	return r
}

// readLines reads a batch of lines.
func (r *TextRecognizer) readLines(ctx context.Context, crops []*preprocess.Image, batch []int,
	lines []TextLine) error {
	ratio := 320.0 / lineHeight
	for _, at := range batch {
		ratio = max(ratio, float64(crops[at].Width)/float64(crops[at].Height))
	}
	width := int(lineHeight * ratio)
	x, err := r.batch(crops, batch, width)
	if err != nil {
		return err
	}
	y, shape, err := runFloat(ctx, r.read, r.readIn, x, len(batch), 3, lineHeight, width)
	if err != nil {
		return err
	}
	classes := len(r.characters)
	if len(shape) != 3 || shape[0] != len(batch) || shape[2] != classes {
		return fmt.Errorf("text recognizer: the model that reads lines returned shape %v, want [%d,steps,%d]", shape,
			len(batch), classes)
	}
	return parallel(len(batch), func(i int) error {
		text, score := r.decode(y[i*shape[1]*classes:(i+1)*shape[1]*classes], classes)
		lines[batch[i]] = TextLine{Text: text, Score: score}
		return nil
	})
}

// decode returns the text of the best class of each step, without repeats and blanks, and the mean
// of their probabilities.
func (r *TextRecognizer) decode(probs []float32, classes int) (string, float64) {
	var text strings.Builder
	sum, n, last := 0.0, 0, 0
	for step := range slices.Chunk(probs, classes) {
		best := argmax(step)
		if best != last && best != 0 {
			text.WriteString(r.characters[best])
			sum += math.RoundToEven(float64(step[best])*1e5) / 1e5
			n++
		}
		last = best
	}
	if n == 0 {
		return "", 0
	}
	return text.String(), sum / float64(n)
}

// argmax returns the index of the first largest element.
func argmax(x []float32) int {
	best, top := 0, float32(math.Inf(-1))
	for i, v := range x {
		if v > top {
			best, top = i, v
		}
	}
	return best
}
