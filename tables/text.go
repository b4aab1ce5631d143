package tables

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/tensor"
)

// TextOptions configure [OpenText].
type TextOptions struct {
	pipeline.TextOptions
	// Task is the task of the folder. Default: that of [pipeline.TaskOf].
	Task pipeline.Task
	// Embed and Pooling are the options of vectors.
	Embed   pipeline.EmbedOptions
	Pooling []string
	// Query is what texts are ranked for, for [pipeline.TextRanking].
	Query string
	// Labels are those to choose from, for [pipeline.ZeroShotClassification].
	Labels []string
}

// TextModel is a model folder whose input is a column of texts. The input is named "text". The
// outputs are "embedding", a vector for each text, or "score", the score for a query, or "label"
// and "score", the best label of a text. It is safe for concurrent use.
type TextModel struct {
	outputs []onward.NodeArg
	run     func(ctx context.Context, texts []string) (onward.Values, error)
	close   func() error
}

// OpenText opens a model folder as Hugging Face has it. opts may be nil.
func OpenText(ctx context.Context, dir string, opts *TextOptions) (*TextModel, error) {
	o := TextOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Task == "" {
		var err error
		if o.Task, err = pipeline.TaskOf(dir, &o.Options); err != nil {
			return nil, err
		}
	}
	open, ok := map[pipeline.Task]func(*TextModel, context.Context, string, *TextOptions) error{
		pipeline.FeatureExtraction: (*TextModel).openEmbedder, pipeline.TextRanking: (*TextModel).openReranker,
		pipeline.TextClassification:     (*TextModel).openClassifier,
		pipeline.ZeroShotClassification: (*TextModel).openZeroShot}[o.Task]
	if !ok {
		return nil, fmt.Errorf("model folder %s: the task %s adds no columns; want one of %s", dir, o.Task,
			[]pipeline.Task{pipeline.FeatureExtraction, pipeline.TextRanking, pipeline.TextClassification,
				pipeline.ZeroShotClassification})
	}
	m := &TextModel{}
	if err := open(m, ctx, dir, &o); err != nil {
		return nil, err
	}
	return m, nil
}

// rowsAxis is dimension 0.
var rowsAxis = onward.Dim{Value: -1, Param: "rows"}

func (m *TextModel) output(name string, d tensor.DType, shape ...onward.Dim) {
	m.outputs = append(m.outputs, onward.NewNodeArg(name, tensor.TensorType(d), shape))
}

func (m *TextModel) openEmbedder(ctx context.Context, dir string, o *TextOptions) error {
	e, err := pipeline.OpenEmbedder(ctx, dir, &pipeline.EmbedderOptions{TextOptions: o.TextOptions, Pooling: o.Pooling})
	if err != nil {
		return err
	}
	width := e.Dimensions()
	if n := o.Embed.Dimensions; n > 0 {
		width = n
	}
	numbers := onward.Dim{Value: int64(width)}
	if width == 0 {
		numbers = onward.Dim{Value: -1, Param: "numbers"}
	}
	m.close = e.Close
	m.output("embedding", tensor.TypeFloat32, rowsAxis, numbers)
	m.run = func(ctx context.Context, texts []string) (onward.Values, error) {
		vectors, err := e.EmbedWith(ctx, texts, &o.Embed)
		if err != nil {
			return nil, err
		}
		width := width
		var all []float32
		for _, v := range vectors {
			all, width = append(all, v...), len(v)
		}
		t, err := tensor.New(all, len(vectors), width)
		return onward.Values{"embedding": t}, err
	}
	return nil
}

func (m *TextModel) openReranker(ctx context.Context, dir string, o *TextOptions) error {
	if o.Query == "" {
		return fmt.Errorf("the task %s needs a query", o.Task)
	}
	r, err := pipeline.OpenReranker(ctx, dir, &pipeline.RerankerOptions{TextOptions: o.TextOptions})
	if err != nil {
		return err
	}
	m.close = r.Close
	m.output("score", tensor.TypeFloat32, rowsAxis)
	m.run = func(ctx context.Context, texts []string) (onward.Values, error) {
		pairs := make([][2]string, len(texts))
		for i, t := range texts {
			pairs[i] = [2]string{o.Query, t}
		}
		scores, err := r.Score(ctx, pairs)
		if err != nil {
			return nil, err
		}
		t, err := tensor.New(scores, len(scores))
		return onward.Values{"score": t}, err
	}
	return nil
}

func (m *TextModel) openClassifier(ctx context.Context, dir string, o *TextOptions) error {
	c, err := pipeline.OpenTextClassifier(ctx, dir, &pipeline.ClassifierOptions{TextOptions: o.TextOptions})
	if err != nil {
		return err
	}
	m.labels(c.Close, func(ctx context.Context, texts []string) ([][]pipeline.Label, error) {
		return c.Classify(ctx, texts, 1)
	})
	return nil
}

func (m *TextModel) openZeroShot(ctx context.Context, dir string, o *TextOptions) error {
	if len(o.Labels) == 0 {
		return fmt.Errorf("the task %s needs labels", o.Task)
	}
	c, err := pipeline.OpenZeroShotClassifier(ctx, dir, &o.TextOptions)
	if err != nil {
		return err
	}
	m.labels(c.Close, func(ctx context.Context, texts []string) ([][]pipeline.Label, error) {
		return c.Classify(ctx, texts, o.Labels, nil)
	})
	return nil
}

// labels sets the outputs of a pipeline that returns labels by descending score.
func (m *TextModel) labels(end func() error, run func(context.Context, []string) ([][]pipeline.Label, error)) {
	m.close = end
	m.output("label", tensor.TypeString, rowsAxis)
	m.output("score", tensor.TypeFloat32, rowsAxis)
	m.run = func(ctx context.Context, texts []string) (onward.Values, error) {
		results, err := run(ctx, texts)
		if err != nil {
			return nil, err
		}
		names, scores := make([]string, len(results)), make([]float32, len(results))
		for i, l := range results {
			names[i], scores[i] = l[0].Name, l[0].Score
		}
		label, err := tensor.New(names, len(names))
		if err != nil {
			return nil, err
		}
		score, err := tensor.New(scores, len(scores))
		return onward.Values{"label": label, "score": score}, err
	}
}

// Close closes the pipeline.
func (m *TextModel) Close() error { return m.close() }

// Inputs describes the input "text".
func (m *TextModel) Inputs() []onward.NodeArg {
	return []onward.NodeArg{onward.NewNodeArg("text", tensor.TensorType(tensor.TypeString), []onward.Dim{rowsAxis})}
}

// OverridableInitializers returns nil.
func (m *TextModel) OverridableInitializers() []onward.NodeArg { return nil }

// Outputs describes the outputs.
func (m *TextModel) Outputs() []onward.NodeArg { return m.outputs }

// Provider returns "pipeline".
func (m *TextModel) Provider() string { return "pipeline" }

// Run returns the outputs for the texts of the input.
func (m *TextModel) Run(ctx context.Context, feed onward.Values, _ *onward.RunOptions) (onward.Values, error) {
	t, ok := feed["text"].(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("input \"text\" is missing")
	}
	texts, err := tensor.Data[string](t)
	if err != nil {
		return nil, fmt.Errorf("input \"text\": %w", err)
	}
	return m.run(ctx, texts)
}
