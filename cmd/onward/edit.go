//go:build !core

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/edit"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/layers"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// editJSON is the output of --json.
type editJSON struct {
	Model  string `json:"model"`
	Output string `json:"output"`
	Before int    `json:"nodes_before"` // in all graphs
	After  int    `json:"nodes_after"`
	// Changes are lines that say what was changed.
	Changes  []string          `json:"changes"`
	Outputs  []edit.Difference `json:"outputs"` // compared with the original
	Float16  *edit.HalfReport  `json:"float16,omitempty"`
	BFloat16 *edit.HalfReport  `json:"bfloat16,omitempty"`
}

// edited is the result of an edit before it is verified.
type edited struct {
	model   *onnx.Model
	changes []string
	batch   bool // verify with twice the batch, too
	half    *edit.HalfReport
	elem    tensor.DType      // of half
	rtol    float64           // the default tolerance if not 0
	old     map[string]string // names of values in the original, where they differ
	differs bool              // results may differ from the original's
}

// editFlags are the flags of all edits.
type editFlags struct {
	inputs    inputs.Flags
	output    string
	weights   string
	embed     bool
	force     bool
	asJSON    bool
	tolerance layers.Tolerance
}

func init() { large = append(large, editCommand) }

func editCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "edit",
		Short: "Change models, and list how two differ",
		Long: `Change a model and save the result. Every edit checks the result and runs it and the
original on the same inputs. If results differ, nothing is written, unless --force is
given. Inputs are random unless --input or --inputs gives them. --json prints the
changes and the comparison.`,
		Example: "  onward edit dims model.onnx -o dynamic.onnx --batch N\n" +
			"  onward edit convert model.onnx -o half.onnx --float16",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(editExtract(), editDims(), editSimplify(), editConvert(), editRename(), editInsert(), editRemove(),
		editWeights(), editMetadata(), editDiff())
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
	return c
}

// editVerb returns a subcommand that makes an edit. rtol is the default tolerance.
func editVerb(c *cobra.Command, rtol float64,
	make func(ctx context.Context, m *onnx.Model) (*edited, error)) *cobra.Command {
	f := new(editFlags)
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if f.output == "" {
			return cli.Usagef("--output is missing")
		}
		if f.embed && f.weights != "" {
			return cli.Usagef("--embed and --external-data exclude each other")
		}
		m, err := modelfile.Load(args[0])
		if err != nil {
			return err
		}
		defer m.Close()
		if err := modelfile.CheckOutput(args[0], m, f.output, f.weights); err != nil {
			return err
		}
		e, err := make(cmd.Context(), m)
		if err != nil {
			return err
		}
		r := &editJSON{Model: args[0], Output: f.output, Before: modelfile.Nodes(m.Graph),
			After: modelfile.Nodes(e.model.Graph), Changes: e.changes}
		switch e.elem {
		case tensor.TypeFloat16:
			r.Float16 = e.half
		case tensor.TypeBFloat16:
			r.BFloat16 = e.half
		}
		if s := cmd.Flags(); e.rtol != 0 && !s.Changed("rtol") && !s.Changed("atol") {
			f.tolerance.Rtol, f.tolerance.Atol = e.rtol, e.rtol
		}
		if r.Changes == nil {
			r.Changes = []string{}
		}
		err = f.verify(cmd.Context(), m, e, r)
		if err == nil {
			err = cmd.Context().Err()
		}
		if err == nil {
			err = f.write(e.model)
		}
		if err != nil {
			r.Output = ""
		}
		if f.asJSON {
			err = errors.Join(text.JSON(cmd.OutOrStdout(), r), err)
		} else if err == nil || len(r.Outputs) > 0 {
			printEdit(cmd.OutOrStdout(), r)
		}
		return err
	}
	s := c.Flags()
	s.StringVarP(&f.output, "output", "o", "", "the file to write")
	s.StringVar(&f.weights, "external-data", "", "store the weights in this file next to the output")
	s.BoolVar(&f.embed, "embed", false, "store all weights in the output itself")
	s.BoolVar(&f.force, "force", false, "write the model even if its results differ")
	s.Float64Var(&f.tolerance.Rtol, "rtol", rtol, "relative tolerance of the comparison with the original")
	s.Float64Var(&f.tolerance.Atol, "atol", rtol, "absolute tolerance")
	f.inputs.Register(s)
	s.BoolVar(&f.asJSON, "json", false, "print JSON")
	return c
}

// write writes the model.
func (f *editFlags) write(m *onnx.Model) error {
	if f.embed {
		return modelfile.WriteWhole(f.output, m)
	}
	return modelfile.Write(f.output, m, f.weights)
}

// verify checks the edited model and compares it with the original. It returns an error if they
// differ, unless --force is given.
func (f *editFlags) verify(ctx context.Context, m *onnx.Model, e *edited, r *editJSON) error {
	rules := &onnx.CheckOptions{Schema: onward.OperatorSchema}
	if err := onnx.Check(e.model, rules); err != nil {
		if own := onnx.Check(m, rules); own != nil {
			return fmt.Errorf("the original is not valid, before any edit: %w", own)
		}
		return fmt.Errorf("the edited model is not valid: %w", err)
	}
	drawn, err := f.inputs.Feed(ctx, m, true)
	if err != nil {
		return err
	}
	feed := drawn.Values
	r.Outputs, err = edit.Verify(ctx, m, e.model, e.old, feed, f.tolerance)
	if err == nil && e.batch {
		var twice []edit.Difference
		twice, err = edit.VerifyBatch(ctx, m, e.model, feed, feed, f.tolerance)
		r.Outputs = append(r.Outputs, twice...)
	}
	if err != nil {
		return err
	}
	for _, o := range r.Outputs {
		if !o.Agree && !f.force && !e.differs {
			hint := ""
			if e.elem == tensor.TypeFloat16 {
				hint = "; numbers beyond 65504 become infinite in float16: --keep leaves nodes in float32"
			}
			return fmt.Errorf("output %q differs from the original, nothing is written (--force writes it): %s%s",
				o.Name, o.Error, hint)
		}
	}
	return nil
}

func printEdit(w io.Writer, r *editJSON) {
	for _, c := range r.Changes {
		fmt.Fprintln(w, text.Name(c))
	}
	fmt.Fprintf(w, "%d -> %d nodes\n", r.Before, r.After)
	for _, o := range r.Outputs {
		mark, abs, snr := "ok", "-", ""
		if !o.Agree {
			mark = "DIFFERS"
		}
		if o.MaxAbs != nil {
			abs = fmt.Sprintf("%.3g", *o.MaxAbs)
		}
		if o.SNR != nil {
			snr = fmt.Sprintf(", signal-to-noise ratio %.0f dB", *o.SNR)
		}
		if o.Twice {
			snr += ", with twice the batch"
		}
		fmt.Fprintf(w, "%s: output %s, largest difference %s%s\n", mark, text.Name(o.Name), abs, snr)
	}
	if r.Output != "" {
		fmt.Fprintf(w, "written to %s\n", text.Name(r.Output))
	}
}

func editExtract() *cobra.Command {
	var from, to []string
	c := &cobra.Command{
		Use:   "extract MODEL -o OUT [--from NAME]... [--to NAME]...",
		Short: "Extract the part between values",
		Long: `Extract the part of a model that computes the values --to (default: its outputs) from
the values --from. Other inputs that this part needs stay inputs.`,
		Example: "  onward edit extract model.onnx -o head.onnx --from features\n" +
			"  onward edit extract digits.onnx -o part.onnx --from h1 --to pooled",
	}
	c.Flags().StringArrayVar(&from, "from", nil, "a value that becomes an input; repeat for more")
	c.Flags().StringArrayVar(&to, "to", nil, "a value that becomes an output; repeat for more")
	return editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		r, err := edit.Extract(m, from, to)
		return &edited{model: r}, err
	})
}

func editDims() *cobra.Command {
	var batch string
	c := &cobra.Command{
		Use:   "dims MODEL -o OUT --batch NAME",
		Short: "Make the batch dynamic",
		Long: `Make the first dimension of all inputs symbolic, and of the outputs that have the same
size. Declared shapes of intermediate values are removed. Constant shapes of Reshape that
contain the size are adapted. The result is also run with twice the batch. To fix a
symbolic dimension, use onward optimize --dimension NAME=SIZE.`,
		Example: "  onward edit dims model.onnx -o dynamic.onnx --batch N",
	}
	c.Flags().StringVar(&batch, "batch", "", "the name of the dimension")
	return editVerb(c, 1e-4, func(_ context.Context, m *onnx.Model) (*edited, error) {
		if batch == "" {
			return nil, cli.Usagef("--batch is missing")
		}
		r, repaired, err := edit.FreeBatch(m, batch)
		if err != nil {
			return nil, err
		}
		e := &edited{model: r, batch: true}
		for _, n := range repaired {
			e.changes = append(e.changes, fmt.Sprintf("repaired the shape of node %q (Reshape)", n))
		}
		return e, nil
	})
}

func editSimplify() *cobra.Command {
	c := &cobra.Command{
		Use:   "simplify MODEL -o OUT",
		Short: "Fold constants and remove what has no effect",
		Long: "Fold constants, also those of BatchNormalization after Conv into its weights, remove nodes without " +
			"effect and compute equal nodes once. The result has operators of ONNX only where the model has; onward " +
			"optimize fuses operators, too.",
		Example: "  onward edit simplify model.onnx -o simple.onnx",
	}
	return editVerb(c, 1e-5, func(ctx context.Context, m *onnx.Model) (*edited, error) {
		r, edits, err := onward.OptimizeModel(ctx, m, &onward.SessionOptions{OptimizationLevel: onward.OptimizeBasic})
		if err != nil {
			return nil, err
		}
		e := &edited{model: r}
		for _, x := range edits {
			e.changes = append(e.changes,
				fmt.Sprintf("%s: %s, %d -> %d nodes", x.Pass, text.Plural(x.Edits, "change"), x.Before, x.After))
		}
		return e, nil
	})
}
