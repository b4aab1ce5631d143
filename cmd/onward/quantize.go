//go:build !core

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/cmd/onward/internal/batches"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/progress"
	"github.com/onward-ml/onward/cmd/onward/internal/ranges"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// quantizeJSON is the output of --json.
type quantizeJSON struct {
	Model     string         `json:"model"`
	Output    string         `json:"output"`
	Mode      string         `json:"mode"`
	Before    int64          `json:"weight_bytes_before"`
	After     int64          `json:"weight_bytes_after"`
	Operators map[string]int `json:"operators"` // of the quantized model
	Accuracy  *accuracyJSON  `json:"accuracy,omitempty"`
}

type accuracyJSON struct {
	Batches int              `json:"batches"`
	Outputs []outputAccuracy `json:"outputs"`
}

// outputAccuracy compares an output of the quantized model with the original's.
type outputAccuracy struct {
	Name   string   `json:"name"`
	MaxAbs float64  `json:"max_abs"`
	SNR    *float64 `json:"snr_db"` // null if there is no difference
	Cosine *float64 `json:"cosine"` // null if undefined
	// Agreement is the fraction of rows with the same argmax along the last axis, or of
	// equal integers; null if neither applies.
	Agreement *float64 `json:"agreement"`
	Odd       int64    `json:"odd"` // number of values that are finite in only one model
}

// quantizeFlags holds the flags of the verb.
type quantizeFlags struct {
	ranges                       ranges.Flags
	output, weights, mode, table string
	format, activation, weight   string
	perChannel, reduce, force    bool
	symmetricActivations         bool
	block, bits, accuracyLevel   int
	nodes, exclude               []string
}

func init() { large = append(large, quantizeCommand) }

func quantizeCommand() *cobra.Command {
	var (
		o      quantizeFlags
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "quantize MODEL -o OUT",
		Short: "Quantize a model to 8-bit or 4-bit integers",
		Long: `Quantize a model to 8-bit or 4-bit integers.

--mode static    8-bit weights and activations, with ranges from --data or from a --table
                 of onward calibrate. The default if one of them is given.
--mode dynamic   8-bit weights; every run computes the ranges of activations.
--mode nbits     4-bit or 8-bit weights of MatMul in blocks; activations stay floats.

With --data the quantized model is compared with the original: largest difference,
signal-to-noise ratio, cosine similarity, and how often the argmax along the last axis
(the answer of a classifier) is equal.

` + batches.Help,
		Example: `  onward quantize model.onnx -o model.int8.onnx --data samples.npz
  onward quantize digits.onnx -o digits.int8.onnx --data images/ --per-channel --format qoperator
  onward quantize encoder.onnx -o small.onnx --mode dynamic
  onward quantize llm.onnx -o llm.int4.onnx --mode nbits --block 32 --bits 4`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), r)
			}
			printQuantized(cmd.OutOrStdout(), r)
			return nil
		},
	}
	f := c.Flags()
	o.ranges.Register(f)
	f.StringVarP(&o.output, "output", "o", "", "the model to write")
	f.StringVar(&o.weights, "external-data", "",
		"store the weights in this file next to the output; required from 2 GiB on")
	f.StringVar(&o.mode, "mode", "", "static, dynamic or nbits (default static with --data or --table, else dynamic)")
	f.StringVar(&o.table, "table", "", "a calibration table; ranges are not computed from --data then")
	f.StringVar(&o.format, "format", "", "qdq or qoperator (default qdq for static, qoperator for nbits)")
	f.StringVar(&o.activation, "activation", "u8", "type of activations: u8 or s8")
	f.StringVar(&o.weight, "weight", "", "type of weights: u8 or s8 (default s8; dynamic Conv u8)")
	f.BoolVar(&o.perChannel, "per-channel", false, "one scale per output channel")
	f.BoolVar(&o.reduce, "reduce-range", false, "7-bit weights, for processors without VNNI")
	f.BoolVar(&o.symmetricActivations, "symmetric-activations", false,
		"symmetric activations: the zero point is the middle of the integers")
	f.BoolVar(&o.ranges.Symmetric, "symmetric", false, "symmetric blocks, with --mode nbits")
	f.BoolVar(&o.force, "force", false, "quantize operators that only move data even if no neighbour is quantized")
	f.IntVar(&o.block, "block", 32, "number of weights that share a scale, with --mode nbits: 16 to 256")
	f.IntVar(&o.bits, "bits", 4, "bits per weight, with --mode nbits: 4 or 8")
	f.IntVar(&o.accuracyLevel, "accuracy-level", 0, "accuracy_level of MatMulNBits; 4 allows 8-bit activations")
	f.StringSliceVar(&o.ranges.OpTypes, "op-types", nil,
		"operator types to quantize, such as Conv,Gemm (default those that benefit)")
	f.StringArrayVar(&o.nodes, "node", nil, "quantize only the node of this name; repeat for more")
	f.StringArrayVar(&o.exclude, "exclude", nil, "do not quantize the node of this name; repeat for more")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// check validates the flags and sets the default mode.
func (o *quantizeFlags) check() error {
	if o.output == "" {
		return cli.Usagef("-o is missing; want the file to write")
	}
	if o.mode == "" {
		o.mode = "dynamic"
		if len(o.ranges.Data.Paths) > 0 || o.table != "" {
			o.mode = "static"
		}
	}
	types := map[string]bool{"": true, "u8": true, "s8": true}
	switch {
	case o.mode != "static" && o.mode != "dynamic" && o.mode != "nbits":
		return cli.Usagef("--mode is %q, want static, dynamic or nbits", o.mode)
	case o.mode == "static" && len(o.ranges.Data.Paths) == 0 && o.table == "":
		return cli.Usagef("--mode static needs --data, or the --table of onward calibrate")
	case o.format != "" && o.format != string(calibration.QDQ) && o.format != string(calibration.QOperator):
		return cli.Usagef("--format is %q, want qdq or qoperator", o.format)
	case !types[o.activation] || !types[o.weight]:
		return cli.Usagef("--activation is %q and --weight %q, want u8 or s8", o.activation, o.weight)
	case o.activation == "s8" && (o.weight == "u8" || o.mode == "dynamic"):
		return cli.Usagef("--activation s8 needs --mode static and --weight s8")
	case o.mode == "nbits" && (o.bits != 4 && o.bits != 8 || o.block < 16 || o.block > 256 || o.block&(o.block-1) != 0):
		return cli.Usagef("--bits is %d and --block %d, want 4 or 8 bits and a power of two from 16 to 256",
			o.bits, o.block)
	case o.accuracyLevel < 0 || o.accuracyLevel > 4:
		return cli.Usagef("--accuracy-level is %d, want 0 to 4", o.accuracyLevel)
	}
	_, err := o.ranges.Options()
	return err
}

func (o *quantizeFlags) run(ctx context.Context, stderr io.Writer, path string) (*quantizeJSON, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, err := modelfile.Load(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := modelfile.CheckOutput(path, m, o.output, o.weights); err != nil {
		return nil, err
	}
	var data calibration.Data
	if len(o.ranges.Data.Paths) > 0 {
		if data, err = o.ranges.Data.Read(m); err != nil {
			return nil, err
		}
	}
	q, err := o.quantize(ctx, stderr, m, data)
	if err != nil {
		return nil, err
	}
	r := &quantizeJSON{Model: path, Output: o.output, Mode: o.mode, Before: modelfile.WeightBytes(m),
		After: modelfile.WeightBytes(q), Operators: map[string]int{}}
	for _, n := range q.Graph.Nodes {
		r.Operators[n.OpType]++
	}
	if data != nil {
		if r.Accuracy, err = o.accuracy(ctx, stderr, m, q, data); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
		return nil, err
	}
	return r, modelfile.Write(o.output, q, o.weights)
}

func (o *quantizeFlags) quantize(ctx context.Context, stderr io.Writer, m *onnx.Model,
	data calibration.Data) (*onnx.Model, error) {
	if o.mode == "nbits" {
		return calibration.QuantizeMatMulNBits(m, &calibration.NBitsOptions{
			Bits: o.bits, Block: o.block, Symmetric: o.ranges.Symmetric, Style: calibration.Style(o.format),
			AccuracyLevel: o.accuracyLevel,
			OpTypes:       o.ranges.OpTypes, Nodes: o.nodes, Exclude: o.exclude,
		})
	}
	types := map[string]tensor.DType{"u8": tensor.TypeUint8, "s8": tensor.TypeInt8}
	opts := &calibration.QuantizeOptions{
		Style: calibration.Style(o.format), Activation: types[o.activation], Weight: types[o.weight],
		PerChannel:  o.perChannel,
		ReduceRange: o.reduce, SymmetricActivations: o.symmetricActivations, OpTypes: o.ranges.OpTypes, Nodes: o.nodes,
		Exclude: o.exclude, Force: o.force,
	}
	if o.mode == "dynamic" {
		return calibration.QuantizeDynamic(m, opts)
	}
	if o.table != "" {
		table, err := calibration.ReadFile(o.table)
		if err != nil {
			return nil, err
		}
		return calibration.QuantizeStatic(m, table, opts)
	}
	find := o.ranges
	find.Symmetric = o.symmetricActivations
	find.OpTypes = nil
	table, _, err := find.Find(ctx, stderr, m, data)
	if err != nil {
		return nil, err
	}
	return calibration.QuantizeStatic(m, table, opts)
}

func (o *quantizeFlags) accuracy(ctx context.Context, stderr io.Writer, m, q *onnx.Model,
	data calibration.Data) (*accuracyJSON, error) {
	opts, err := session.Options(o.ranges.Provider, o.ranges.Threads, o.ranges.Own)
	if err != nil {
		return nil, err
	}
	bar := progress.New(stderr, "comparing", "batches")
	defer bar.Finish()
	report, err := calibration.Evaluate(ctx, m, q, data,
		&calibration.EvaluateOptions{Session: opts, MaxBatches: o.ranges.Data.MaxBatches, Progress: func(done int) {
			bar.Step(done, 0, "")
		}})
	if err != nil {
		return nil, err
	}
	r := &accuracyJSON{Batches: report.Batches, Outputs: []outputAccuracy{}}
	for _, out := range report.Outputs {
		r.Outputs = append(r.Outputs, outputAccuracy{out.Name, out.MaxAbs, text.Finite(out.SNR()),
			text.Finite(out.Cosine()), text.Finite(out.Agreement()), out.Odd})
	}
	return r, nil
}

func printQuantized(w io.Writer, r *quantizeJSON) {
	fmt.Fprintf(w, "%s: %s quantization, weights %s -> %s, written to %s\n", text.Name(r.Model), r.Mode,
		text.Bytes(r.Before), text.Bytes(r.After), text.Name(r.Output))
	if r.After >= r.Before {
		fmt.Fprintln(w, "no weights were quantized: the main graph has no constant float32 weights of the chosen "+
			"operators that --node and --exclude select; weights in the bodies of If, Loop, Scan and functions are "+
			"not quantized")
	}
	if r.Accuracy == nil {
		return
	}
	var b strings.Builder
	t := text.Table(&b)
	fmt.Fprintln(t, "output\tmax error\tSNR\tcosine\tsame answer")
	figure := func(format string, v *float64, scale float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v*scale)
	}
	for _, x := range r.Accuracy.Outputs {
		fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\t%s\n", text.Name(x.Name), x.MaxAbs, figure("%.1f dB", x.SNR, 1),
			figure("%.6f", x.Cosine, 1), figure("%.2f%%", x.Agreement, 100))
	}
	t.Flush()
	fmt.Fprintf(&b, "compared with the original on %s\n", text.Plural(r.Accuracy.Batches, "batch"))
	io.WriteString(w, b.String())
}
