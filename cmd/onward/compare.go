package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/page"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// compareJSON is the output of --json.
type compareJSON struct {
	Model     string         `json:"model"`
	With      string         `json:"with,omitempty"` // the second model or the file of saved values
	Providers [2]string      `json:"providers"`
	Precision string         `json:"precision,omitempty"` // of the first provider or model, "" for float32
	Rtol      float64        `json:"rtol"`
	Atol      float64        `json:"atol"`
	Agree     bool           `json:"agree"`
	Values    []compareValue `json:"values"`
	// With --layers, First is the first value that disagrees while the inputs of its node agree,
	// and Losses are the values with the largest drop of the signal-to-noise ratio.
	First  *compareFirst `json:"first,omitempty"`
	Losses []compareLoss `json:"losses,omitempty"`
	// Exclude are the nodes of the second model before quantization that lose the most, and
	// Requantize is a command that leaves them as they are.
	Exclude    []string    `json:"exclude,omitempty"`
	Requantize string      `json:"requantize,omitempty"`
	Bisect     *bisectJSON `json:"bisect,omitempty"`
}

// compareFirst says where results begin to differ.
type compareFirst struct {
	Value       string `json:"value"`
	Initializer bool   `json:"initializer"`
	Node        string `json:"node"` // makes the value, or reads the initializer
	Op          string `json:"op_type"`
}

// compareLoss is a value whose signal-to-noise ratio is lower than that of the inputs of its node.
type compareLoss struct {
	Value  string  `json:"value"`
	Node   string  `json:"node"`
	Op     string  `json:"op_type"`
	Before float64 `json:"inputs_snr_db"`
	After  float64 `json:"snr_db"`
}

// compareValue compares two results that correspond. Differences are relative to the second.
type compareValue struct {
	Name        string `json:"name"`
	With        string `json:"with,omitempty"` // the second's name, if another
	Node        string `json:"node,omitempty"` // the node that makes it, with --layers
	Op          string `json:"op_type,omitempty"`
	Output      bool   `json:"output"`
	Initializer bool   `json:"initializer,omitempty"`
	layers.Difference
}

// bisectJSON describes the smallest model found that still fails.
type bisectJSON struct {
	Folder  string   `json:"folder"`
	Nodes   []string `json:"nodes"` // labels
	Of      int      `json:"of"`    // nodes of the model
	Error   string   `json:"error"` // how it fails
	Command string   `json:"command"`
}

// runner runs a model on a provider; it is runOn, except in tests.
type runner func(ctx context.Context, m *onnx.Model, provider string, precision onward.Precision, o *compareOptions,
	feed onward.Values) (onward.Values, error)

// compareOptions holds the flags of the verb.
type compareOptions struct {
	models    []string // one or two
	golden    string
	providers []string // one or two
	threads   int
	precision onward.Precision // of the first provider or model
	own       session.ProviderOptions
	inputs    inputs.Flags
	layers    bool
	bisect    string // folder for the smallest model that disagrees
	tolerance layers.Tolerance
}

func compareCommand() *cobra.Command {
	var (
		o         compareOptions
		providers string
		html      string
		asJSON    bool
	)
	c := &cobra.Command{
		Use:   "compare MODEL [MODEL] [--provider P,P] [--golden F.npz]",
		Short: "Compare two providers, two models, or a model with saved results",
		Long: `Compare the results of two providers, of two models, or of a model and a .npz file
(--golden; onward run --save writes one), on the same inputs.

Elements a and b agree if |a−b| ≤ atol + rtol·|b|. The default atol is 1e-5, times the
root mean square of the value if that is above 1. Integers of up to 8 bits also agree if
they differ by at most --steps.

The table has the largest absolute and relative difference of every output, the
signal-to-noise ratio in decibels, the smallest rtol that passes with the given atol,
and the smallest atol that passes with the given rtol.

--layers compares all intermediate values, which prevents some fusions. It names the node
at which results begin to differ, and the nodes that lose most of the signal. Values of
two models correspond if their names, the operators that compute them, or the nodes that
read them are equal. Weights that differ are listed too. Values in subgraphs are not
compared. --html writes a page that shows the differences along the layers.

` + inputs.Help + `

For a quantized model and the model before, --layers also prints a command that quantizes
again without the nodes that lose the most.

--bisect shrinks a model on which two providers disagree, or on which the first one fails,
to nodes of which none can be left out. It writes them as a model with inputs and the
second provider's outputs to a new folder, in the form of the ONNX backend suite.

The exit code is 1 if a value disagrees.`,
		Example: `  onward compare model.onnx --provider cpu,ort
  onward compare model.onnx --provider cpu,reference --layers --shape x=8x128
  onward compare changed.onnx original.onnx --layers --html compare.html
  onward compare quantized.onnx original.onnx --layers --inputs samples.npz
  onward compare model.onnx --provider ort,reference --bisect failing
  onward compare model.onnx --inputs samples.npz --golden results.npz`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.models = args
			want := 2
			if o.golden != "" || len(args) == 2 {
				want = 1
			}
			switch {
			case o.golden != "" && len(args) == 2:
				return cli.Usagef("two models and --golden are given, want one of them")
			case !cmd.Flags().Changed("provider") && want == 1:
				providers = "cpu"
			}
			o.providers = strings.Split(providers, ",")
			switch n := len(o.providers); {
			case want == 2 && n != 2:
				return cli.Usagef("--provider is %q, want two, such as cpu,reference", providers)
			case n > 2 || o.golden != "" && n != 1:
				return cli.Usagef("--provider is %q, want one", providers)
			}
			if o.tolerance.Rtol < 0 || o.tolerance.Atol < 0 || math.IsNaN(o.tolerance.Rtol) ||
				math.IsNaN(o.tolerance.Atol) || !(o.tolerance.Steps >= 0) {
				return cli.Usagef("--rtol is %g, --atol %g and --steps %g, want 0 or more", o.tolerance.Rtol,
					o.tolerance.Atol, o.tolerance.Steps)
			}
			o.tolerance.Scaled = !cmd.Flags().Changed("atol")
			if o.bisect != "" && (want != 2) {
				return cli.Usagef("--bisect is for one model on two providers")
			}
			out, err := compare(cmd.Context(), &o)
			if err != nil {
				return err
			}
			if err := writePage(cmd.Context(), html, func() *page.Page { return comparePage(out) }); err != nil {
				return err
			}
			if asJSON {
				err = text.JSON(cmd.OutOrStdout(), out)
			} else {
				printCompare(cmd.OutOrStdout(), out)
			}
			if err == nil && !out.Agree {
				err = cli.Printed{Err: errors.New("the results disagree"), Complete: true}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&providers, "provider", "p", "cpu,reference",
		"two providers, or one for both models: "+strings.Join(onward.Providers(), ", "))
	f.StringVar(&o.golden, "golden", "", "a .npz file with results by name to compare with")
	f.StringVar(&o.bisect, "bisect", "",
		"if the providers disagree, write the smallest model on which they do to this new folder")
	f.BoolVar(&o.layers, "layers", false, "compare all intermediate values")
	f.Float64Var(&o.tolerance.Rtol, "rtol", 1e-3, "relative tolerance")
	f.Float64Var(&o.tolerance.Atol, "atol", 1e-5, "absolute tolerance; the default grows with values above 1")
	f.Float64Var(&o.tolerance.Steps, "steps", 0,
		"difference of 8-bit and narrower integers that agrees, in quantization steps")
	session.OptionFlag(f, &o.own)
	session.ThreadsFlag(f, &o.threads)
	session.PrecisionFlag(f, &o.precision)
	f.Lookup("precision").Usage += "; of the first provider or model, the second uses float32"
	o.inputs.Register(f)
	htmlFlag(f, &html)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// side is one of the two things to compare.
type side struct {
	model    *onnx.Model // nil for saved values
	inputs   []onward.NodeArg
	path     string
	provider string
	values   onward.Values
}

func compare(ctx context.Context, o *compareOptions) (*compareJSON, error) {
	m, d, err := modelfile.Describe(o.models[0])
	if err != nil {
		return nil, err
	}
	defer m.Close()
	feed, err := o.inputs.Feed(ctx, m, true)
	if err != nil {
		return nil, err
	}
	last := o.providers[len(o.providers)-1]
	out := &compareJSON{Model: o.models[0], Providers: [2]string{o.providers[0], last}, Rtol: o.tolerance.Rtol,
		Atol: o.tolerance.Atol, Agree: true, Precision: session.PrecisionName(o.precision)}
	a, b := &side{model: m, inputs: d.Inputs, path: o.models[0], provider: o.providers[0]},
		&side{model: m, inputs: d.Inputs, path: o.models[0], provider: last}
	switch {
	case len(o.models) == 2:
		second, d, err := modelfile.Describe(o.models[1])
		if err != nil {
			return nil, err
		}
		defer second.Close()
		b.model, b.inputs, b.path, out.With = second, d.Inputs, o.models[1], o.models[1]
	case o.golden != "":
		z, err := tensor.ReadNPZFile(o.golden, inputs.MaxBytes)
		if err != nil {
			return nil, err
		}
		*b = side{values: onward.Values{}}
		for name, t := range z.Arrays {
			b.values[name] = t
		}
		out.With, out.Providers[1] = o.golden, ""
	}
	pairs := pairsOf(a, b, o.layers)
	for _, s := range []*side{b, a} {
		err := s.run(ctx, pairs, s == b, o, feed.Values, d.Inputs)
		if err != nil && s == a && o.bisect != "" && ctx.Err() == nil {
			out.Agree, out.Values = false, []compareValue{}
			out.Bisect, err = bisect(ctx, o, m, feed.Values, runOn)
			return out, err
		}
		if err != nil {
			return nil, err
		}
	}
	all := make([]compareValue, len(pairs))
	compared := 0
	for i, p := range pairs {
		if all[i].Agree = b.model == nil && b.values[p.B] == nil; all[i].Agree {
			continue // not in the file
		}
		compared++
		v := compareValue{Difference: layers.Compare(a.values[p.A], b.values[p.B], o.tolerance)}
		v.Name, v.Output, v.Initializer = p.A, slices.Contains(outputNames(m.Graph), p.A), p.Node == nil
		if p.B != p.A {
			v.With = p.B
		}
		if n := nodeOf(p); o.layers && n != nil {
			v.Node, v.Op = n.Name, n.OpType
		}
		out.Agree = out.Agree && (v.Agree || v.Initializer) // other weights are no difference of results
		all[i] = v
		if !v.Initializer || !v.Agree {
			out.Values = append(out.Values, v)
		}
	}
	if compared == 0 {
		return nil, fmt.Errorf("%s has none of the values to compare, such as the outputs %s", o.golden,
			strings.Join(outputNames(m.Graph), ", "))
	}
	if o.layers {
		out.First, out.Losses = firstDifference(pairs, all), largestLosses(pairs, all)
		if len(o.models) == 2 {
			out.addExclusions(a.model.Graph, b.model.Graph, pairs)
		}
	}
	if o.bisect != "" && !out.Agree {
		out.Bisect, err = bisect(ctx, o, m, feed.Values, runOn)
	}
	return out, err
}

// nodeOf returns the node to name for a pair: that of the second model for a dequantized value.
func nodeOf(p layers.Pair) *onnx.Node {
	n := p.Node
	if n == nil {
		n = p.Consumer
	}
	if n != nil && n.OpType == "DequantizeLinear" && p.NodeB != nil {
		n = p.NodeB
	}
	return n
}

func outputNames(g *onnx.Graph) []string {
	names := make([]string, len(g.Outputs))
	for i, v := range g.Outputs {
		names[i] = v.Name
	}
	return names
}

// pairsOf returns the values to compare, in the order of the nodes.
func pairsOf(a, b *side, all bool) []layers.Pair {
	g := a.model.Graph
	second := g
	if b.model != nil {
		second = b.model.Graph
	}
	if all {
		return layers.Match(g, second)
	}
	var pairs []layers.Pair
	for i := range min(len(g.Outputs), len(second.Outputs)) {
		pairs = append(pairs, layers.Pair{A: g.Outputs[i].Name, B: second.Outputs[i].Name, Node: &onnx.Node{}})
	}
	return pairs
}

// run computes the values of the pairs. second selects their names in the second model. The feed
// has the names of the first model's inputs.
func (s *side) run(ctx context.Context, pairs []layers.Pair, second bool, o *compareOptions, feed onward.Values,
	first []onward.NodeArg) error {
	if s.model == nil {
		return nil
	}
	own := onward.Values{}
	for i, in := range s.inputs {
		name := in.Name
		if feed[name] == nil && i < len(first) && len(s.inputs) == len(first) {
			name = first[i].Name
		}
		if feed[name] != nil {
			own[in.Name] = feed[name]
		}
	}
	if !second {
		own = feed
	}
	wanted := map[string]bool{}
	for _, p := range pairs {
		switch {
		case second && p.Node != nil:
			wanted[p.B] = true
		case p.Node != nil:
			wanted[p.A] = true
		}
	}
	precision := o.precision
	if second {
		precision = onward.PrecisionFloat32
	}
	res, err := runOn(ctx, withOutputs(s.model, wanted), s.provider, precision, o, own)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.values = maps.Clone(own) // a quantized input is compared with the input
	maps.Copy(s.values, res)
	for _, t := range s.model.Graph.Initializers {
		if s.values[t.Name] == nil {
			if v, err := t.Decode(nil); err == nil { // the session has read it, too
				s.values[t.Name] = v
			}
		}
	}
	return nil
}

// runOn runs a model on a provider.
func runOn(ctx context.Context, m *onnx.Model, provider string, precision onward.Precision, o *compareOptions,
	feed onward.Values) (onward.Values, error) {
	opts, err := session.Options(provider, o.threads, o.own)
	if err != nil {
		return nil, err
	}
	opts.Precision = precision
	sess, err := onward.OpenModel(ctx, m, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", provider, err)
	}
	defer sess.Close()
	res, err := sess.Run(ctx, feed, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", provider, err)
	}
	r := onward.Values{}
	for n, v := range res { // results need not outlive some sessions
		r[n] = tensor.Clone(v)
	}
	return r, nil
}

// withOutputs returns a copy of a model that has more outputs: the named outputs of nodes.
func withOutputs(m *onnx.Model, names map[string]bool) *onnx.Model {
	c, g := *m, *m.Graph
	g.Outputs = slices.Clone(g.Outputs)
	declared := map[string]*onnx.ValueInfo{}
	for _, v := range g.ValueInfo {
		declared[v.Name] = v
	}
	have := map[string]bool{}
	for _, v := range g.Outputs {
		have[v.Name] = true
	}
	for _, n := range g.Nodes {
		for _, name := range n.Outputs {
			if !names[name] || have[name] {
				continue
			}
			have[name] = true
			v := declared[name]
			if v == nil {
				v = &onnx.ValueInfo{Name: name}
			}
			g.Outputs = append(g.Outputs, v)
		}
	}
	c.Graph = &g
	return &c
}

// firstDifference returns the first value that disagrees while all inputs of its node agree.
func firstDifference(pairs []layers.Pair, values []compareValue) *compareFirst {
	for i, v := range values {
		if v.Agree || slices.ContainsFunc(pairs[i].Inputs, func(k int) bool { return !values[k].Agree }) {
			continue
		}
		return &compareFirst{Value: v.Name, Initializer: v.Initializer, Node: v.Node, Op: v.Op}
	}
	return nil
}

const (
	mostSNR   = 120 // decibels; float32 has no more
	leastLoss = 3   // decibels; losses below are rounding
	maxLosses = 5
)

// largestLosses returns the values that add the most noise to that of the inputs of their nodes.
func largestLosses(pairs []layers.Pair, values []compareValue) []compareLoss {
	snr := func(v compareValue) float64 {
		switch {
		case v.SNR != nil:
			return min(*v.SNR, mostSNR)
		case v.MaxAbs == nil && !v.Agree: // not numbers, or infinite
			return 0
		}
		return mostSNR
	}
	var r []compareLoss
	for i, v := range values {
		if v.Agree {
			continue
		}
		before := float64(mostSNR)
		for _, k := range pairs[i].Inputs {
			before = min(before, snr(values[k]))
		}
		if before-snr(v) >= leastLoss {
			r = append(r, compareLoss{v.Name, v.Node, v.Op, before, snr(v)})
		}
	}
	added := func(l compareLoss) float64 { // the power of the noise, of a signal of 1
		return math.Pow(10, -l.After/10) - math.Pow(10, -l.Before/10)
	}
	sort.SliceStable(r, func(i, k int) bool { return added(r[i]) > added(r[k]) })
	return r[:min(len(r), maxLosses)]
}

func printCompare(w io.Writer, c *compareJSON) {
	sides := [2]string{c.Providers[0], c.Providers[1]}
	if c.With != "" {
		sides = [2]string{"on " + c.Providers[0], text.Name(c.With)}
		if c.Providers[1] != "" {
			sides[1] += " on " + c.Providers[1]
		}
	}
	if c.Precision != "" {
		sides[0] += " with " + c.Precision
	}
	fmt.Fprintf(w, "%s: %s against %s, rtol %g, atol %g\n", text.Name(c.Model), sides[0], sides[1], c.Rtol, c.Atol)
	t := text.Table(w)
	ops := slices.ContainsFunc(c.Values, func(v compareValue) bool { return v.Op != "" })
	op := func(cell string) string { // empty without --layers
		if !ops {
			return ""
		}
		return "\t" + cell
	}
	fmt.Fprintln(t, "\tvalue"+op("operator")+"\ttype\tmax abs\tmax rel\tSNR dB\tpasses with rtol\tor atol")
	number := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.3g", *x)
	}
	bad := 0
	for _, v := range c.Values {
		mark := "ok"
		if !v.Agree {
			mark = "DIFFERS"
			bad++
		}
		name, reader := text.Name(v.Name), text.Name(v.Op)
		if v.With != "" {
			name += " / " + text.Name(v.With)
		}
		if v.Initializer {
			reader = "weight of " + reader
		}
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, name, op(reader), v.Type, number(v.MaxAbs),
			number(v.MaxRel), number(v.SNR), number(v.NeedRtol), number(v.NeedAtol))
	}
	t.Flush()
	for _, v := range c.Values {
		if v.Error != "" && (v.Output || v.MaxAbs == nil) { // the table has the rest
			fmt.Fprintf(w, "%s: %s\n", text.Name(v.Name), text.Escape(v.Error))
		}
	}
	fmt.Fprintf(w, "%d of %d values agree\n", len(c.Values)-bad, len(c.Values))
	if f := c.First; f != nil {
		what := fmt.Sprintf("value %q of %s; the inputs of the node agree", f.Value, nodeLabel(f.Node, f.Op))
		if f.Initializer {
			what = fmt.Sprintf("weight %q of %s", f.Value, nodeLabel(f.Node, f.Op))
		}
		fmt.Fprintf(w, "first difference: %s\n", text.Name(what))
	}
	if len(c.Losses) > 0 {
		fmt.Fprintln(w, "largest losses of signal, in dB of the inputs and of the value:")
		t := text.Table(w)
		for _, l := range c.Losses {
			fmt.Fprintf(t, "  %.0f -> %.0f\t%s\t%s\n", l.Before, l.After, text.Name(nodeLabel(l.Node, l.Op)),
				text.Name(l.Value))
		}
		t.Flush()
	}
	if c.Requantize != "" {
		fmt.Fprintf(w, "quantize without these layers: %s\n", text.Name(c.Requantize))
	}
	if b := c.Bisect; b != nil {
		fmt.Fprintf(w, "%d of %d nodes still fail: %s\n%s\nwritten to %s; again: %s\n", len(b.Nodes), b.Of,
			text.Name(strings.Join(b.Nodes, ", ")), text.Escape(b.Error),
			text.Name(b.Folder), text.Name(b.Command))
	}
}

func nodeLabel(name, op string) string {
	if name == "" {
		return "node " + op
	}
	return fmt.Sprintf("node %q (%s)", name, op)
}
