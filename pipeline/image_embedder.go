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
	"github.com/onward-ml/onward/tokenizer"
)

// ImageEmbedder makes vectors of images, and of texts that describe them, by a model folder of CLIP
// or SigLIP, or of images alone by DINOv2 or ViT. It is safe for use by several goroutines.
type ImageEmbedder struct {
	images imageModel
	texts  *onward.Session // may be that of images, and is nil if there is none
	tok    *tokenizer.Tokenizer
	most   int  // tokens
	first  bool // the vector may be that of the first token
	pads   bool // texts have that many tokens, and padding is seen
	padID  int64
}

// mostPositions limits the tokens of a text, which is padded to that length by SigLIP.
const mostPositions = 1 << 16

// OpenImageEmbedder opens a model folder with config.json and preprocessor_config.json. opts may be
// nil.
//
//   - CLIP and SigLIP have a tokenizer, and vision_model.onnx and text_model.onnx, as
//     transformers.js has them, or one model.onnx with both. Vectors are the outputs image_embeds
//     and text_embeds, or else pooler_output.
//   - DINOv2 and ViT have model.onnx. Vectors are its output pooler_output, or else for DINOv2 that
//     of the first token in last_hidden_state.
//
// Models may also be in onnx/.
func OpenImageEmbedder(ctx context.Context, dir string, opts *TextOptions) (*ImageEmbedder, error) {
	var o TextOptions
	if opts != nil {
		o = *opts
	}
	f, err := openFolder(dir, &o.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &ImageEmbedder{}
	if err := e.open(ctx, f, &o); err != nil {
		return nil, errors.Join(f.wrap(err), e.Close())
	}
	return e, nil
}

func (e *ImageEmbedder) open(ctx context.Context, f *folder, o *TextOptions) error {
	config, err := f.json("config.json")
	if err != nil {
		return err
	}
	var kind string
	config.get("model_type", &kind)
	e.most = map[string]int{"clip": 77, "siglip": 64}[kind]
	if kinds := []string{"clip", "siglip", "dinov2", "dinov2_with_registers", "vit"}; !slices.Contains(kinds, kind) {
		return errors.Join(config.err, fmt.Errorf("config.json: model_type is %q, want one of %q", kind, kinds))
	}
	if e.images.process, err = f.imageProcessor(); err != nil {
		return err
	}
	e.first = strings.HasPrefix(kind, "dinov2")
	if e.most == 0 {
		e.images.session, err = f.openModel(ctx, "model")
		return err
	}
	texts := config.object("text_config")
	if texts.get("max_position_embeddings", &e.most); e.most < 1 || e.most > mostPositions {
		texts.fail("max_position_embeddings", "%d, want 1 to %d", e.most, mostPositions)
	}
	if err := errors.Join(config.err, texts.err); err != nil {
		return err
	}
	if e.tok, err = tokenizer.OpenFS(f.fs, "", &o.Tokenizer); err != nil {
		return err
	}
	if o.MaxTokens > 0 {
		e.most = min(e.most, o.MaxTokens)
	}
	if e.tok, err = e.tok.WithOptions(&tokenizer.Options{NoPadding: true,
		Truncation: &tokenizer.Truncation{MaxLength: e.most, NoOverflow: true}}); err != nil {
		return err
	}
	if e.pads = kind == "siglip"; e.pads {
		var ok bool
		if e.padID, ok = e.tok.IDOf(e.tok.Config().Pad); !ok {
			return errors.New("the tokenizer has no pad_token")
		}
	}
	vision, err := f.models("vision_model")
	if err != nil {
		return err
	}
	stem := "model"
	if len(vision) > 0 {
		stem = "vision_model"
	}
	if e.images.session, err = f.openModel(ctx, stem); err != nil {
		return err
	}
	e.texts = e.images.session
	if stem == "vision_model" {
		e.texts, err = f.openModel(ctx, "text_model")
	}
	return err
}

// openModel opens the variant of a model.
func (f *folder) openModel(ctx context.Context, stem string) (*onward.Session, error) {
	name, err := f.model(stem, f.opts.Variant)
	if err != nil {
		return nil, err
	}
	return f.openSession(ctx, name)
}

// Close releases the sessions.
func (e *ImageEmbedder) Close() error {
	var err error
	if e.images.session != nil {
		err = e.images.session.Close()
	}
	if e.texts != nil && e.texts != e.images.session {
		err = errors.Join(err, e.texts.Close())
	}
	return err
}

// EmbedImage returns the vector of an image, of length 1.
func (e *ImageEmbedder) EmbedImage(ctx context.Context, m *preprocess.Image) ([]float32, error) {
	x, shape, err := e.images.process.tensor(m)
	if err != nil {
		return nil, err
	}
	pixels, err := tensor.New(x, shape...)
	if err != nil {
		return nil, err
	}
	return e.embed(ctx, e.images.session, onward.Values{"pixel_values": pixels}, "image_embeds")
}

// errNoTexts is the error of EmbedText for models of images alone.
var errNoTexts = errors.New("image embedder: the model has no vectors of texts")

// EmbedText returns the vector of a text, of length 1: the product of that with the vector of an
// image is their cosine similarity.
func (e *ImageEmbedder) EmbedText(ctx context.Context, text string) ([]float32, error) {
	if e.texts == nil {
		return nil, errNoTexts
	}
	t, err := e.tok.Encode(text)
	if err != nil {
		return nil, err
	}
	for e.pads && len(t.IDs) < e.most {
		t.IDs, t.Mask = append(t.IDs, e.padID), append(t.Mask, 1)
	}
	feed := onward.Values{}
	for name, ids := range map[string][]int64{"input_ids": t.IDs, "attention_mask": t.Mask} {
		if feed[name], err = tensor.New(ids, 1, len(ids)); err != nil {
			return nil, err
		}
	}
	return e.embed(ctx, e.texts, feed, "text_embeds")
}

// embed returns an output as a vector of length 1. Inputs that it does not depend on are small.
func (e *ImageEmbedder) embed(ctx context.Context, s *onward.Session, feed onward.Values,
	output string) ([]float32, error) {
	wanted := onward.Values{}
	for _, in := range s.Inputs() {
		if v, ok := feed[in.Name].(*tensor.Tensor); ok {
			t, err := tensor.Convert(v, in.ElementType().Elem, nil)
			if err != nil {
				return nil, err
			}
			wanted[in.Name] = t
			continue
		}
		shape := make([]int, len(in.Shape))
		for i, d := range in.Shape {
			shape[i] = int(max(d.Value, 1))
		}
		for _, size := range []imageSize{e.images.process.size, e.images.process.cropSize} {
			if len(shape) == 4 && size.Height > 0 && size.Width > 0 {
				shape = []int{1, 3, size.Height, size.Width}
			}
		}
		t, err := tensor.Zeros(in.ElementType().Elem, shape...)
		if err != nil {
			return nil, err
		}
		wanted[in.Name] = t
	}
	has := func(name string) bool {
		return slices.ContainsFunc(s.Outputs(), func(a onward.NodeArg) bool { return a.Name == name })
	}
	if !has(output) {
		output = "pooler_output"
	}
	first := e.first && !has(output)
	if first {
		output = "last_hidden_state"
	}
	if !has(output) {
		return nil, fmt.Errorf("image embedder: the model has the outputs %v, but no %s", s.Outputs(), output)
	}
	out, err := s.Run(ctx, wanted, &onward.RunOptions{Outputs: []string{output}, OnlyPathToFetches: true})
	if err != nil {
		return nil, err
	}
	t, ok := out[output].(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("output %s is not a tensor", output)
	}
	v, err := asFloats(t)
	if err != nil {
		return nil, err
	}
	if t, ok := out[output].(*tensor.Tensor); first && ok && t.Rank() == 3 {
		v = v[:min(len(v), t.Dim(2))]
	}
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	for i, x := range v {
		v[i] = float32(float64(x) / max(math.Sqrt(square), 1e-12))
	}
	return v, nil
}
