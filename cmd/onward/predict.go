//go:build !core

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/progress"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/pipeline"
)

// inputsPerCall is the number of inputs that a pipeline gets together.
const inputsPerCall = 1024

type predictOptions struct {
	task        string
	asJSON      bool
	query       string
	question    string
	labels      []string
	multiLabel  bool
	top         int
	aggregation string
	embed       pipeline.EmbedOptions
	pooling     []string

	provider  string
	own       session.ProviderOptions
	threads   int
	precision onward.Precision
	text      pipeline.TextOptions
}

func init() { large = append(large, predictCommand, embedCommand) }

func predictCommand() *cobra.Command {
	o := predictOptions{}
	c := &cobra.Command{
		Use:   "predict FOLDER [INPUT...]",
		Short: "Answer with a model folder: vectors, scores, labels, entities, text",
		Long: `Answer with a model folder as Hugging Face has it: an ONNX file, the tokenizer and the
settings of a model. The task is that of the folder, or of --task:

  feature-extraction        a vector for each text
  sparse-encoding           weights of tokens for each text
  multi-vector-encoding     a vector for each token
  text-ranking              texts in the order in which they answer --query
  text-classification       labels of each text
  zero-shot-classification  scores of --labels for each text
  token-classification      entities in each text
  question-answering        answers to --question in each text
  fill-mask                 words for the mask in each text
  image-to-text             the lines of text in each image, by the models of PP-OCR
  image-classification      labels of each image
  object-detection          objects in each image, with boxes
  automatic-speech-recognition  the words of each sound, by models of CTC and transducers
  voice-activity-detection  when someone speaks in each sound, by Silero VAD
  keyword-spotting          when each sound has a wake word, by openWakeWord

INPUT is a text, or @FILE for each line of a file. For tasks of images it is an image file, and
for automatic-speech-recognition, voice-activity-detection and keyword-spotting a WAV, FLAC or
MP3 file. Without INPUT, each line of the standard input is one. With --json, each line of the output
is a JSON object.`,
		Example: "  onward predict sentiment \"a good film\"\n" +
			"  onward predict all-MiniLM-L6-v2 --json <texts.txt\n" +
			"  onward predict reranker --query \"who sits?\" \"a cat sits\" \"a dog runs\"\n" +
			"  onward predict nli --task zero-shot-classification --labels sports,politics @headlines.txt\n" +
			"  onward predict ppocr page.png\n" +
			"  onward predict wav2vec2-base-960h speech.flac",
	}
	o.flags(c)
	c.Flags().StringVar(&o.task, "task", "", "the task (default that of the folder)")
	c.Flags().StringVar(&o.query, "query", "", "text-ranking: the query")
	c.Flags().StringVar(&o.question, "question", "", "question-answering: the question")
	c.Flags().StringSliceVar(&o.labels, "labels", nil, "zero-shot-classification: the labels")
	c.Flags().BoolVar(&o.multiLabel, "multi-label", false, "zero-shot-classification: score each label alone")
	c.Flags().IntVar(&o.top, "top", 0,
		"how many results are printed (default all; 5 for fill-mask, 1 for question-answering)")
	c.Flags().StringVar(&o.aggregation, "aggregation", "simple",
		"token-classification: none, simple, first, average or max")
	return c
}

// embedCommand returns the verb that is predict for vectors.
func embedCommand() *cobra.Command {
	o := predictOptions{task: string(pipeline.FeatureExtraction)}
	c := &cobra.Command{
		Use:   "embed FOLDER [TEXT...]",
		Short: "Print vectors of texts: predict --task feature-extraction",
		Long: `Print a vector for each text, with the model of a folder as Hugging Face has it. TEXT is a
text, or @FILE for each line of a file. Without TEXT, each line of the standard input is one.
A line of the output has the numbers of a vector, or with --json an object with the text.`,
		Example: "  onward embed all-MiniLM-L6-v2 \"a cat\" \"ein Hund\"\n" +
			"  onward embed all-MiniLM-L6-v2 --json <texts.txt >vectors.jsonl",
	}
	o.flags(c)
	return c
}

// flags adds the arguments and the flags that predict and embed share.
func (o *predictOptions) flags(c *cobra.Command) {
	c.Args = cobra.MinimumNArgs(1)
	c.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0], args[1:]) }
	f := c.Flags()
	f.StringVar(&o.text.Variant, "variant", "",
		"the model file: fp16, int8, quantized, …, auto for the fastest, or a path")
	f.IntVar(&o.text.MaxTokens, "max-tokens", 0, "tokens after which a text is cut off (default as the folder says)")
	f.StringVar(&o.embed.PromptName, "prompt", "", "vectors: the name of the prompt before each text, such as query")
	f.IntVar(&o.embed.Dimensions, "dimensions", 0, "vectors: keep the first numbers only")
	f.BoolVar(&o.embed.Normalize, "normalize", false, "vectors: divide by the length")
	f.StringSliceVar(&o.pooling, "pooling", nil, "vectors: mean, cls, lasttoken, … (default as the folder says)")
	session.ProviderFlag(f, &o.provider)
	session.OptionFlag(f, &o.own)
	session.ThreadsFlag(f, &o.threads)
	session.PrecisionFlag(f, &o.precision)
	f.BoolVar(&o.asJSON, "json", false, "print a line of JSON for each input")
}

// answer is the result for an input.
type answer struct {
	json  any
	lines []string
}

// predictor runs a pipeline on some inputs.
type predictor struct {
	run   func(ctx context.Context, inputs []string) ([]answer, error)
	whole bool // all inputs belong to one call
	one   bool // each input is a call, which takes long
	close func() error
}

func (o *predictOptions) run(cmd *cobra.Command, dir string, args []string) error {
	so, err := session.Options(o.provider, o.threads, o.own)
	if err != nil {
		return err
	}
	so.Precision = o.precision
	o.text.Session = so
	if o.top < 0 {
		return cli.Usagef("--top is %d, want 0 or more", o.top)
	}
	task := pipeline.Task(o.task)
	if task == "" {
		if task, err = pipeline.TaskOf(dir, &o.text.Options); err != nil {
			return err
		}
	}
	p, err := o.open(cmd.Context(), dir, task)
	if err != nil {
		return err
	}
	limit := inputsPerCall
	if p.one {
		limit = 1
	}
	in := &inputReader{ctx: cmd.Context(), p: p, out: cmd.OutOrStdout(), asJSON: o.asJSON, limit: limit}
	terminal := progress.IsTerminal(cmd.OutOrStdout())
	if !terminal {
		in.bar = progress.New(cmd.ErrOrStderr(), cmd.Name(), "inputs")
	}
	if stdin, ok := cmd.InOrStdin().(*os.File); ok && terminal && len(args) == 0 && progress.IsTerminal(stdin) {
		in.limit = 1 // answer each line
	}
	return errors.Join(in.read(cmd.InOrStdin(), args), p.close())
}

// inputReader collects inputs, and prints the answers.
type inputReader struct {
	ctx    context.Context
	p      *predictor
	out    io.Writer
	asJSON bool
	limit  int
	bar    *progress.Bar
	list   []string
	done   int
}

func (r *inputReader) read(stdin io.Reader, args []string) error {
	defer r.bar.Finish()
	if len(args) == 0 {
		if err := eachLine(stdin, r.add); err != nil {
			return err
		}
	}
	for _, a := range args {
		name, isFile := strings.CutPrefix(a, "@")
		if !isFile {
			if err := r.add(a); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("%w; a text that begins with @ must come from the standard input", err)
		}
		err = eachLine(f, r.add)
		f.Close()
		if err != nil {
			return err
		}
	}
	return r.flush()
}

// add adds an input.
func (r *inputReader) add(s string) error {
	r.list = append(r.list, s)
	if len(r.list) < r.limit || r.p.whole {
		return nil
	}
	return r.flush()
}

func (r *inputReader) flush() error {
	if len(r.list) == 0 {
		return nil
	}
	answers, err := r.p.run(r.ctx, r.list)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, a := range answers {
		if r.asJSON {
			if err := enc.Encode(a.json); err != nil {
				return err
			}
		} else {
			b.WriteString(strings.Join(a.lines, "\n") + "\n")
		}
	}
	w := r.out
	if r.asJSON {
		w = text.JSONLines(w)
	}
	r.done += len(r.list)
	r.list = r.list[:0]
	r.bar.Step(r.done, 0, "")
	_, err = w.Write(b.Bytes())
	return err
}

// open opens the pipeline of a task.
func (o *predictOptions) open(ctx context.Context, dir string, task pipeline.Task) (*predictor, error) {
	open, ok := map[pipeline.Task]func(context.Context, string) (*predictor, error){
		pipeline.FeatureExtraction: o.embedder, pipeline.SparseEncoding: o.sparse,
		pipeline.MultiVectorEncoding: o.multiVector, pipeline.TextRanking: o.reranker,
		pipeline.TextClassification: o.classifier, pipeline.ZeroShotClassification: o.zeroShot,
		pipeline.TokenClassification: o.tokenClassifier, pipeline.QuestionAnswering: o.answerer,
		pipeline.FillMask: o.filler, pipeline.ImageToText: o.recognizer,
		pipeline.ImageClassification: o.imageClassifier, pipeline.ObjectDetection: o.detector,
		pipeline.SpeechRecognition: o.transcriber, pipeline.VoiceDetection: o.voices,
		pipeline.KeywordSpotting: o.wakeWords}[task]
	if !ok {
		return nil, cli.Usagef("--task is %q, want one of %q", task, pipeline.Tasks())
	}
	for _, f := range []struct {
		task  pipeline.Task
		flag  string
		given bool
	}{{pipeline.TextRanking, "query", o.query != ""},
		{pipeline.QuestionAnswering, "question", o.question != ""},
		{pipeline.ZeroShotClassification, "labels", len(o.labels) > 0}} {
		if f.given != (f.task == task) {
			if f.given {
				return nil, cli.Usagef("--%s belongs to the task %s, and the task is %s", f.flag, f.task, task)
			}
			return nil, cli.Usagef("the task %s needs --%s", task, f.flag)
		}
	}
	return open(ctx, dir)
}

// eachAnswer makes the answers of a pipeline that has a result for each input.
func eachAnswer[R any](run func(context.Context, []string) ([]R, error),
	show func(input string, r R) answer) func(context.Context, []string) ([]answer, error) {
	return func(ctx context.Context, inputs []string) ([]answer, error) {
		results, err := run(ctx, inputs)
		if err != nil {
			return nil, err
		}
		answers := make([]answer, len(results))
		for i, r := range results {
			answers[i] = show(inputs[i], r)
		}
		return answers, nil
	}
}

func (o *predictOptions) embedder(ctx context.Context, dir string) (*predictor, error) {
	e, err := pipeline.OpenEmbedder(ctx, dir, &pipeline.EmbedderOptions{TextOptions: o.text, Pooling: o.pooling})
	if err != nil {
		return nil, err
	}
	return &predictor{close: e.Close, run: eachAnswer(func(ctx context.Context, in []string) ([][]float32, error) {
		return e.EmbedWith(ctx, in, &o.embed)
	}, func(input string, v []float32) answer {
		return answer{struct {
			Text      string    `json:"text"`
			Embedding []float32 `json:"embedding"`
		}{input, v}, []string{vectorLine(v)}}
	})}, nil
}

func (o *predictOptions) sparse(ctx context.Context, dir string) (*predictor, error) {
	e, err := pipeline.OpenSparseEmbedder(ctx, dir, &o.text)
	if err != nil {
		return nil, err
	}
	type weight struct {
		Token string  `json:"token"`
		Index int64   `json:"index"`
		Value float32 `json:"value"`
	}
	embed := func(ctx context.Context, in []string) ([]pipeline.SparseVector, error) {
		return e.Embed(ctx, in, &o.embed)
	}
	return &predictor{close: e.Close, run: eachAnswer(embed, func(input string, v pipeline.SparseVector) answer {
		a := answer{lines: []string{text.Name(input)}}
		list := make([]weight, len(v.Indices))
		for i, index := range v.Indices {
			token, _ := e.Tokenizer().TokenOf(index)
			list[i] = weight{token, index, v.Values[i]}
			a.lines = append(a.lines, fmt.Sprintf("%8.4f  %s", v.Values[i], text.Name(token)))
		}
		a.json = map[string]any{"text": input, "weights": list}
		return a
	})}, nil
}

func (o *predictOptions) multiVector(ctx context.Context, dir string) (*predictor, error) {
	e, err := pipeline.OpenMultiVectorEmbedder(ctx, dir, &o.text)
	if err != nil {
		return nil, err
	}
	embed := e.EmbedDocuments
	if o.embed.PromptName == "query" {
		embed = e.EmbedQueries
	}
	return &predictor{close: e.Close, run: eachAnswer(embed, func(input string, vectors [][]float32) answer {
		a := answer{json: map[string]any{"text": input, "embeddings": vectors}, lines: []string{text.Name(input)}}
		for _, v := range vectors {
			a.lines = append(a.lines, vectorLine(v))
		}
		return a
	})}, nil
}

// vectorLine returns the numbers of a vector.
func vectorLine(v []float32) string {
	var line []byte
	for i, x := range v {
		if i > 0 {
			line = append(line, ' ')
		}
		line = strconv.AppendFloat(line, float64(x), 'g', -1, 32)
	}
	return string(line)
}

func (o *predictOptions) reranker(ctx context.Context, dir string) (*predictor, error) {
	r, err := pipeline.OpenReranker(ctx, dir, &pipeline.RerankerOptions{TextOptions: o.text})
	if err != nil {
		return nil, err
	}
	return &predictor{whole: true, close: r.Close, run: func(ctx context.Context, in []string) ([]answer, error) {
		ranks, err := r.Rerank(ctx, o.query, in)
		if err != nil {
			return nil, err
		}
		if o.top > 0 {
			ranks = ranks[:min(o.top, len(ranks))]
		}
		var answers []answer
		for _, d := range ranks {
			answers = append(answers, answer{struct {
				Text  string  `json:"text"`
				Index int     `json:"index"`
				Score float32 `json:"score"`
			}{in[d.Index], d.Index, d.Score}, []string{fmt.Sprintf("%8.4f  %s", d.Score, text.Name(in[d.Index]))}})
		}
		return answers, nil
	}}, nil
}

// labelJSON is a label in the output of --json.
type labelJSON struct {
	Label string  `json:"label"`
	Score float32 `json:"score"`
}

func showLabels(input string, labels []pipeline.Label) answer {
	list, lines := labelLines(input, labels)
	return answer{struct {
		Text   string      `json:"text"`
		Labels []labelJSON `json:"labels"`
	}{input, list}, lines}
}

// labelLines returns the labels of an input for --json, and as lines.
func labelLines(input string, labels []pipeline.Label) ([]labelJSON, []string) {
	list, lines := make([]labelJSON, len(labels)), []string{text.Name(input)}
	for i, l := range labels {
		list[i] = labelJSON{l.Name, l.Score}
		lines = append(lines, fmt.Sprintf("%8.4f  %s", l.Score, text.Name(l.Name)))
	}
	return list, lines
}

func (o *predictOptions) classifier(ctx context.Context, dir string) (*predictor, error) {
	c, err := pipeline.OpenTextClassifier(ctx, dir, &pipeline.ClassifierOptions{TextOptions: o.text})
	if err != nil {
		return nil, err
	}
	classify := func(ctx context.Context, in []string) ([][]pipeline.Label, error) { return c.Classify(ctx, in, o.top) }
	return &predictor{close: c.Close, run: eachAnswer(classify, showLabels)}, nil
}

func (o *predictOptions) zeroShot(ctx context.Context, dir string) (*predictor, error) {
	c, err := pipeline.OpenZeroShotClassifier(ctx, dir, &o.text)
	if err != nil {
		return nil, err
	}
	classify := func(ctx context.Context, in []string) ([][]pipeline.Label, error) {
		list, err := c.Classify(ctx, in, o.labels, &pipeline.ZeroShotOptions{MultiLabel: o.multiLabel})
		for i, l := range list {
			if o.top > 0 {
				list[i] = l[:min(o.top, len(l))]
			}
		}
		return list, err
	}
	return &predictor{close: c.Close, run: eachAnswer(classify, showLabels)}, nil
}

// spanJSON is a part of a text in the output of --json. Start and End are bytes.
type spanJSON struct {
	Label string  `json:"label,omitempty"`
	Score float32 `json:"score"`
	Text  string  `json:"text"`
	Start int     `json:"start"`
	End   int     `json:"end"`
}

func showSpans(input, label string, spans []spanJSON) answer {
	a := answer{lines: []string{text.Name(input)}}
	for _, s := range spans {
		line := fmt.Sprintf("%8.4f  %d-%d  %s", s.Score, s.Start, s.End, text.Name(s.Text))
		if s.Label != "" {
			line += "  " + text.Name(s.Label)
		}
		a.lines = append(a.lines, line)
	}
	a.json = map[string]any{"text": input, label: spans}
	return a
}

func (o *predictOptions) tokenClassifier(ctx context.Context, dir string) (*predictor, error) {
	aggregation := pipeline.Aggregation(o.aggregation)
	if aggregation == "none" {
		aggregation = pipeline.AggregateNone
	}
	c, err := pipeline.OpenTokenClassifier(ctx, dir,
		&pipeline.TokenClassifierOptions{TextOptions: o.text, Aggregation: aggregation})
	if err != nil {
		return nil, err
	}
	return &predictor{close: c.Close, run: eachAnswer(c.Classify, func(input string, l []pipeline.Entity) answer {
		spans := make([]spanJSON, len(l))
		for i, e := range l {
			spans[i] = spanJSON{e.Label, e.Score, e.Text, e.Start, e.End}
		}
		return showSpans(input, "entities", spans)
	})}, nil
}

func (o *predictOptions) answerer(ctx context.Context, dir string) (*predictor, error) {
	q, err := pipeline.OpenQuestionAnswerer(ctx, dir, &pipeline.QuestionOptions{TextOptions: o.text})
	if err != nil {
		return nil, err
	}
	find := func(ctx context.Context, in []string) ([][]pipeline.Answer, error) {
		pairs := make([][2]string, len(in))
		for i, s := range in {
			pairs[i] = [2]string{o.question, s}
		}
		return q.AnswerBatch(ctx, pairs, &pipeline.AnswerOptions{Top: o.top})
	}
	return &predictor{close: q.Close, run: eachAnswer(find, func(input string, l []pipeline.Answer) answer {
		spans := make([]spanJSON, len(l))
		for i, a := range l {
			spans[i] = spanJSON{"", a.Score, a.Text, a.Start, a.End}
		}
		return showSpans(input, "answers", spans)
	})}, nil
}

// fillJSON is a token in place of a mask in the output of --json.
type fillJSON struct {
	Token string  `json:"token"`
	ID    int64   `json:"id"`
	Score float32 `json:"score"`
	Text  string  `json:"text"`
}

func (o *predictOptions) filler(ctx context.Context, dir string) (*predictor, error) {
	m, err := pipeline.OpenMaskFiller(ctx, dir, &o.text)
	if err != nil {
		return nil, err
	}
	fill := func(ctx context.Context, in []string) ([][][]pipeline.Fill, error) {
		return m.Fill(ctx, in, &pipeline.FillOptions{Top: o.top})
	}
	return &predictor{close: m.Close, run: eachAnswer(fill, func(input string, masks [][]pipeline.Fill) answer {
		a := answer{lines: []string{text.Name(input)}}
		list := make([][]fillJSON, len(masks))
		for i, m := range masks {
			for _, f := range m {
				list[i] = append(list[i], fillJSON(f))
				a.lines = append(a.lines, fmt.Sprintf("%8.4f  %s  %s", f.Score, text.Name(f.Token), text.Name(f.Text)))
			}
		}
		a.json = map[string]any{"text": input, "masks": list}
		return a
	})}, nil
}
