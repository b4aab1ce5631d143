package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// compareJSON is the output of --json.
type compareJSON struct {
	Model     string         `json:"model"`
	Providers [2]string      `json:"providers"`
	Rtol      float64        `json:"rtol"`
	Atol      float64        `json:"atol"`
	Agree     bool           `json:"agree"`
	Values    []compareValue `json:"values"`
}

// compareValue compares two results of the same name. Differences are relative to the
// second provider.
type compareValue struct {
	Name   string `json:"name"`
	Op     string `json:"op_type,omitempty"` // the node that makes it, with --layers
	Type   string `json:"type"`
	Output bool   `json:"output"`
	Agree  bool   `json:"agree"`
	Error  string `json:"error,omitempty"`
	// MaxAbs and MaxRel are the largest differences; null if one is not finite.
	MaxAbs *float64 `json:"max_abs"`
	MaxRel *float64 `json:"max_rel"`
	// NeedRtol is the smallest relative tolerance that passes with Atol, NeedAtol the
	// smallest absolute tolerance that passes with Rtol; null if there is none.
	NeedRtol *float64 `json:"need_rtol"`
	NeedAtol *float64 `json:"need_atol"`
}

// compareOptions holds the flags of the verb.
type compareOptions struct {
	providers  []string
	threads    int
	inputs     inputs.Flags
	layers     bool
	rtol, atol float64
}

func compareCommand() *cobra.Command {
	var (
		o         compareOptions
		providers string
		asJSON    bool
	)
	c := &cobra.Command{
		Use:   "compare MODEL --provider P,P",
		Short: "Compare the results of two providers",
		Long: `Compare the results of two providers on the same inputs. Elements a and b agree if
|a−b| ≤ atol + rtol·|b|.

The table has the largest absolute and relative difference of every output, the
smallest rtol that passes with the given atol, and the smallest atol that passes with
the given rtol. --layers adds all intermediate values in the model's order, which
prevents some fusions in both providers.

Inputs are random unless --input or --inputs gives them. Symbolic dimensions are 1
unless --shape sets them.

The exit code is 1 if a value disagrees.`,
		Example: `  onward compare model.onnx --provider cpu,ort
  onward compare model.onnx --provider cpu,reference --layers --shape x=8x128`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.providers = strings.Split(providers, ",")
			if len(o.providers) != 2 {
				return cli.Usagef("--provider is %q, want two, such as cpu,reference", providers)
			}
			if o.rtol < 0 || o.atol < 0 || math.IsNaN(o.rtol) || math.IsNaN(o.atol) {
				return cli.Usagef("--rtol is %g and --atol %g, want 0 or more", o.rtol, o.atol)
			}
			out, err := compare(cmd.Context(), args[0], &o)
			if err != nil {
				return err
			}
			if asJSON {
				err = text.JSON(cmd.OutOrStdout(), out)
			} else {
				err = printCompare(cmd.OutOrStdout(), out)
			}
			if err == nil && !out.Agree {
				err = cli.Printed{Err: errors.New("the results disagree")}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&providers, "provider", "p", "cpu,reference", "two providers: "+strings.Join(onward.Providers(), ", "))
	f.BoolVar(&o.layers, "layers", false, "compare all intermediate values")
	f.Float64Var(&o.rtol, "rtol", 1e-3, "relative tolerance")
	f.Float64Var(&o.atol, "atol", 1e-5, "absolute tolerance")
	session.ThreadsFlag(f, &o.threads)
	o.inputs.Register(f)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// compared is a value to compare.
type compared struct {
	name   string
	op     string // of the node that makes it
	output bool
}

func compare(ctx context.Context, path string, o *compareOptions) (*compareJSON, error) {
	m, d, err := modelfile.Describe(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	feed, err := o.inputs.All(d.Inputs, d.OverridableInitializers)
	if err != nil {
		return nil, err
	}
	var list []compared
	if o.layers {
		m, list = withLayers(m)
	} else {
		for _, a := range d.Outputs {
			list = append(list, compared{name: a.Name, output: true})
		}
	}
	var res [2]onward.Values
	for i, p := range o.providers {
		if res[i], err = runOnce(ctx, m, p, o.threads, feed); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	out := &compareJSON{Model: path, Providers: [2]string(o.providers), Rtol: o.rtol, Atol: o.atol, Agree: true}
	for _, c := range list {
		v := compareValues(res[0][c.name], res[1][c.name], o.rtol, o.atol)
		v.Name, v.Op, v.Output = c.name, c.op, c.output
		out.Agree = out.Agree && v.Agree
		out.Values = append(out.Values, v)
	}
	return out, nil
}

func runOnce(ctx context.Context, m *onnx.Model, provider string, threads int, feed onward.Values) (onward.Values, error) {
	opts, err := session.Options(provider, threads)
	if err != nil {
		return nil, err
	}
	sess, err := onward.OpenModel(ctx, m, opts)
	if err != nil {
		return nil, err
	}
	res, err := sess.Run(ctx, feed, nil)
	if err != nil {
		return nil, err
	}
	for n, v := range res { // results need not outlive some sessions
		res[n] = tensor.Clone(v)
	}
	return res, nil
}

// withLayers returns a copy of a model that has the outputs of all nodes as outputs, and
// lists them in order.
func withLayers(m *onnx.Model) (*onnx.Model, []compared) {
	c, g := *m, *m.Graph
	g.Outputs = append([]*onnx.ValueInfo(nil), g.Outputs...)
	isOutput, declared := map[string]bool{}, map[string]*onnx.ValueInfo{}
	for _, v := range g.Outputs {
		isOutput[v.Name] = true
	}
	for _, v := range g.ValueInfo {
		declared[v.Name] = v
	}
	var list []compared
	for _, n := range g.Nodes {
		for _, name := range n.Outputs {
			if name == "" {
				continue
			}
			list = append(list, compared{name, n.OpType, isOutput[name]})
			if isOutput[name] {
				continue
			}
			v := declared[name]
			if v == nil {
				v = &onnx.ValueInfo{Name: name}
			}
			g.Outputs = append(g.Outputs, v)
		}
	}
	c.Graph = &g
	return &c, list
}

// compareValues measures the differences of two values.
func compareValues(a, b tensor.Value, rtol, atol float64) compareValue {
	var v compareValue
	if a == nil || b == nil {
		v.Error = "only one provider returned this value"
		return v
	}
	v.Type = b.Type().String()
	if t, ok := b.(*tensor.Tensor); ok {
		v.Type = t.String()
	}
	err := tensor.AllClose(a, b, rtol, atol)
	if v.Agree = err == nil; err != nil {
		v.Error = err.Error()
	}
	d := distance{rtol: rtol, atol: atol}
	if !d.add(a, b) {
		return v
	}
	v.MaxAbs, v.MaxRel, v.NeedRtol, v.NeedAtol = text.Finite(d.abs), text.Finite(d.rel), text.Finite(d.needR), text.Finite(d.needA)
	return v
}

// distance collects the largest differences between numbers.
type distance struct {
	rtol, atol             float64
	abs, rel, needR, needA float64
}

// add includes two values. It returns false if they do not hold numbers in the same structure.
func (d *distance) add(a, b tensor.Value) bool {
	switch a := a.(type) {
	case *tensor.Tensor:
		b, ok := b.(*tensor.Tensor)
		return ok && d.tensors(a, b)
	case *tensor.Sequence:
		b, ok := b.(*tensor.Sequence)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !d.add(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case *tensor.Map:
		b, ok := b.(*tensor.Map)
		return ok && d.add(a.Values, b.Values)
	case *tensor.Optional:
		b, ok := b.(*tensor.Optional)
		return ok && a.Value != nil && b.Value != nil && d.add(a.Value, b.Value)
	}
	return false
}

func (d *distance) tensors(a, b *tensor.Tensor) bool {
	if a.DType() != b.DType() || a.Len() != b.Len() || a.DType() == tensor.TypeString || a.DType() == tensor.TypeComplex64 || a.DType() == tensor.TypeComplex128 {
		return false
	}
	x, err := tensor.Convert(a, tensor.TypeFloat64, tensor.ConvertOptions{})
	if err != nil {
		return false
	}
	y, err := tensor.Convert(b, tensor.TypeFloat64, tensor.ConvertOptions{})
	if err != nil {
		return false
	}
	for i, q := range tensor.Of[float64](y) {
		p := tensor.Of[float64](x)[i]
		diff := math.Abs(p - q)
		switch {
		case p == q || math.IsNaN(p) && math.IsNaN(q):
			continue
		case math.IsNaN(diff):
			diff = math.Inf(1)
		}
		q = math.Abs(q)
		d.abs = max(d.abs, diff)
		d.rel = max(d.rel, diff/q)
		d.needA = max(d.needA, diff-d.rtol*q)
		if over := diff - d.atol; over > 0 {
			d.needR = max(d.needR, over/q)
		}
	}
	return true
}

func printCompare(w io.Writer, c *compareJSON) error {
	fmt.Fprintf(w, "%s: %s against %s, rtol %g, atol %g\n", text.Name(c.Model), c.Providers[0], c.Providers[1], c.Rtol, c.Atol)
	t := text.Table(w)
	fmt.Fprintln(t, "\tvalue\top\ttype\tmax_abs\tmax_rel\tpasses with rtol\tor atol")
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, text.Name(v.Name), text.Name(v.Op), v.Type, number(v.MaxAbs), number(v.MaxRel), number(v.NeedRtol), number(v.NeedAtol))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, v := range c.Values {
		if v.Error != "" {
			fmt.Fprintf(w, "%s: %s\n", text.Name(v.Name), text.Escape(v.Error))
		}
	}
	fmt.Fprintf(w, "%d of %d values agree\n", len(c.Values)-bad, len(c.Values))
	return nil
}
