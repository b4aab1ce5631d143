package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/tensor"
)

func runCommand() *cobra.Command {
	var (
		in                            inputs.Flags
		outputs, adapters             []string
		save, provider                string
		threads                       int
		random, asJSON, intermediates bool
		mapWeights                    bool
		own                           session.ProviderOptions
		precision                     onward.Precision
	)
	c := &cobra.Command{
		Use:   "run MODEL [--input NAME=VALUE]...",
		Short: "Run a model once and print its outputs",
		Long: `Run a model once and print its outputs.

` + inputs.ValueHelp + `

--random draws the inputs that are not given. Free dimensions are 1 if they are the first
of an input and else 8 or a size that the model accepts; --dimension and --shape set them.`,
		Example: `  onward run logreg_iris.onnx --input 'float_input=[[5.1,3.5],[6.2,2.9],[5.9,3.0]]'
  onward run model.onnx --input image=@cat.png --output scores --save scores.npz
  onward run model.onnx --input image=@cat.jpg --resize --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  onward run model.onnx --random --dimension batch=1 --dimension sequence=128
  onward run model.onnx --input x=random:8x128 --intermediates --json
  onward run model.onnx --input x=@tokens.npy --adapter style.onnx_adapter`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := session.Options(provider, threads, own)
			if err != nil {
				return err
			}
			opts.MapWeights, opts.Precision = mapWeights, precision
			rep, err := openRun(cmd.Context(), args[0], provider, opts, intermediates)
			if err != nil {
				return err
			}
			defer rep.Close()
			sess := rep.Session
			feed, err := drawInputs(cmd.Context(), args[0], &in, random)
			if err != nil {
				return err
			}
			ro := &onward.RunOptions{Seed: in.Seed}
			for _, file := range adapters {
				a, err := onward.LoadAdapter(file)
				if err != nil {
					return err
				}
				ro.Adapters = append(ro.Adapters, a)
			}
			if len(outputs) > 0 {
				ro.Outputs = outputs
			}
			p := printer{w: cmd.OutOrStdout(), json: asJSON}
			if intermediates {
				ro.Observe = p.node
			}
			out, err := rep.Run(cmd.Context(), backend.Named(feed.Values), ro)
			if err != nil {
				return err
			}
			res := out.Map()
			if save != "" {
				if err := saveNPZ(cmd.Context(), save, sess, res); err != nil {
					return err
				}
			}
			return p.results(sess, res)
		},
	}
	f := c.Flags()
	in.Register(f)
	f.Lookup("seed").Usage = "seed of random values, and of random operators that have no seed attribute"
	f.BoolVar(&random, "random", false, "draw the inputs that are not given, so that they fit the model")
	f.StringArrayVar(&adapters, "adapter", nil, "a LoRA adapter, whose parameters are inputs; repeat for more")
	f.StringArrayVarP(&outputs, "output", "o", nil, "an output to compute; repeat for more (default all)")
	f.StringVar(&save, "save", "", "write the outputs to a .npz file")
	session.ProviderFlag(f, &provider)
	session.OptionFlag(f, &own)
	session.ThreadsFlag(f, &threads)
	session.MapWeightsFlag(f, &mapWeights)
	session.PrecisionFlag(f, &precision)
	f.BoolVar(&intermediates, "intermediates", false,
		"print the outputs of every node; a native library runs a model with these as outputs")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// openRun opens a model. A native library reports the results of its nodes only to a Rep that
// has the model.
func openRun(ctx context.Context, path, provider string, opts *onward.SessionOptions,
	observed bool) (*backend.Rep, error) {
	b := backend.Provider(provider)
	if !observed || driver.TraitsOf(driver.Lookup(provider)).Operators {
		sess, err := session.Open(ctx, path, opts)
		if err != nil {
			return nil, err
		}
		return backend.NewRep(sess, nil, b, b.Device(nil)), nil
	}
	return openRep(ctx, path, provider, &backend.Options{Session: opts})
}

// openRep opens a model without the checks of the backend API.
func openRep(ctx context.Context, path, provider string, o *backend.Options) (*backend.Rep, error) {
	m, err := modelfile.Load(path)
	if err != nil {
		return nil, err
	}
	o.SkipCheck, o.ReleasedOpsetsOnly = true, new(bool)
	rep, err := backend.Prepare(ctx, m, backend.Provider(provider), o)
	if err != nil {
		m.Close()
	}
	return rep, err
}

// printer writes values as text or as JSON.
type printer struct {
	w     io.Writer
	json  bool
	nodes []nodeJSON
}

type nodeJSON struct {
	Index   int                     `json:"index"`
	Name    string                  `json:"name"`
	OpType  string                  `json:"op_type"`
	Domain  string                  `json:"domain,omitempty"`
	TimeMS  *float64                `json:"time_ms"` // null for a native library
	Outputs map[string]tensor.Value `json:"outputs"`
}

func (p *printer) node(n onward.NodeRun) {
	if p.json {
		j := nodeJSON{Index: n.Index, Name: n.Name, OpType: n.OpType, Domain: n.Domain,
			Outputs: map[string]tensor.Value{}}
		if !n.Start.IsZero() {
			ms := text.Milliseconds(n.Duration)
			j.TimeMS = &ms
		}
		for i, v := range n.Out {
			if v != nil {
				j.Outputs[n.OutNames[i]] = tensor.Clone(v)
			}
		}
		p.nodes = append(p.nodes, j)
		return
	}
	fmt.Fprintf(p.w, "#%d %s %s", n.Index, n.OpType, text.Name(n.Name))
	if !n.Start.IsZero() {
		fmt.Fprintf(p.w, " (%s)", n.Duration)
	}
	fmt.Fprintln(p.w)
	for i, v := range n.Out {
		if v != nil {
			fmt.Fprintf(p.w, "  %s: %s\n", text.Name(n.OutNames[i]),
				text.Indent(tensor.Format(v, nil), "  "))
		}
	}
}

func (p *printer) results(sess *onward.Session, res onward.Values) error {
	if p.json {
		out := struct {
			Provider string        `json:"provider"`
			Nodes    []nodeJSON    `json:"nodes,omitempty"`
			Outputs  onward.Values `json:"outputs"`
		}{sess.Provider(), p.nodes, res}
		return text.JSON(p.w, out)
	}
	for _, o := range sess.Outputs() {
		if v := res[o.Name]; v != nil {
			fmt.Fprintf(p.w, "%s: %s\n", text.Name(o.Name), text.Escape(tensor.Format(v, nil)))
		}
	}
	return nil
}

// saveNPZ writes the results in the model's order. It returns an error if one is not a tensor.
func saveNPZ(ctx context.Context, path string, sess *onward.Session, res onward.Values) error {
	var z tensor.NPZ
	for _, o := range sess.Outputs() {
		v := res[o.Name]
		if v == nil {
			continue
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("output %s is %s, which a .npz file cannot hold: select tensors with --output",
				o.Name, v.Type())
		}
		if err := z.Add(o.Name, t); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return tensor.WriteNPZ(w, &z, true) })
}
