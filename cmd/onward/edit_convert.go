//go:build !core

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/edit"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/opset"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func editConvert() *cobra.Command {
	var (
		float16, bfloat16 bool
		version           int64
		keep              []string
	)
	c := &cobra.Command{
		Use:   "convert MODEL -o OUT [--opset N] [--float16 | --bfloat16]",
		Short: "Convert the opset, the precision or the storage of weights",
		Long: fmt.Sprintf(`Convert a model to another opset of ai.onnx, from %d to %d, upward or downward: all
operators of the model, its subgraphs and its functions. A node that has no
equivalent in the opset is an error. The IR version becomes that of the opset's release.

Or compute in float16 or bfloat16. Inputs and outputs keep their types. These nodes stay
in float32: nodes with subgraphs, nodes whose operator does not support the type in the
model's opset, and nodes that --keep names. Weights beyond the range of the type are
clipped and listed. The tolerance of the comparison is then 0.02 or 0.08.

Or store weights in a file next to the model (--external-data), or in it (--embed).`, opset.First, opset.Last),
		Example: `  onward edit convert model.onnx -o new.onnx --opset 21
  onward edit convert model.onnx -o half.onnx --float16 --keep Softmax --keep conv1
  onward edit convert model.onnx -o small.onnx --external-data weights.bin`,
	}
	c.Flags().Int64Var(&version, "opset", 0, "the version of ai.onnx")
	c.Flags().BoolVar(&float16, "float16", false, "compute in float16")
	c.Flags().BoolVar(&bfloat16, "bfloat16", false, "compute in bfloat16")
	c.Flags().StringArrayVar(&keep, "keep", nil, "a node or an operator that stays in float32; repeat for more")
	return editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		flag := c.Flags().Changed
		switch {
		case float16 && bfloat16:
			return nil, cli.Usagef("--float16 and --bfloat16 exclude each other")
		case !float16 && !bfloat16 && len(keep) > 0:
			return nil, cli.Usagef("--keep needs --float16 or --bfloat16")
		case !float16 && !bfloat16 && !flag("opset") && !flag("external-data") && !flag("embed"):
			return nil, cli.Usagef(
				"what to convert is missing: --opset, --float16, --bfloat16, --external-data or --embed")
		}
		e := &edited{model: m}
		if flag("opset") {
			from, _ := m.OpsetVersion("")
			r, err := opset.Convert(m, version)
			if err != nil {
				return nil, err
			}
			e.model, e.changes = r, []string{fmt.Sprintf("opset %d -> %d", from, version)}
		}
		if !float16 && !bfloat16 {
			return e, nil
		}
		e.elem, e.rtol = tensor.TypeFloat16, 2e-2
		if bfloat16 {
			e.elem, e.rtol = tensor.TypeBFloat16, 8e-2 // of 8 bits instead of 11
		}
		names, err := nodeNames("--keep", m, keep)
		if err != nil {
			return nil, err
		}
		r, report, err := edit.Half(e.model, e.elem, func(n *onnx.Node) bool {
			return names[n.Name] || names[n.OpType]
		})
		if err != nil {
			return nil, err
		}
		e.model, e.half = r, report
		e.changes = append(e.changes,
			fmt.Sprintf("computed in %s: %s; inserted %s", e.elem, text.Plural(report.Nodes, "node"),
				text.Plural(report.Casts, "cast")))
		for _, op := range slices.Sorted(maps.Keys(report.Kept)) {
			e.changes = append(e.changes, fmt.Sprintf("left in float32: %d %s", report.Kept[op], op))
		}
		if len(report.Saturated) > 0 {
			e.changes = append(e.changes, "weights beyond the range: "+strings.Join(report.Saturated, ", "))
		}
		return e, nil
	})
}
