//go:build !core

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/edit"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func editWeights() *cobra.Command {
	var (
		file, prefix string
		renamed      []string
		partial      bool
	)
	c := &cobra.Command{
		Use:   "weights MODEL -o OUT --from FILE",
		Short: "Replace the weights",
		Long: `Replace the weights of a model by those of the same names in a .safetensors or .npz file.
Shapes must be equal. Floating-point numbers are converted to the type in the model.
Every weight must be in both files, unless --partial is given. The result is run and
compared with the original; it may differ.`,
		Example: "  onward edit weights model.onnx -o tuned.onnx --from tuned.safetensors\n" +
			"  onward edit weights model.onnx -o tuned.onnx --from head.safetensors --prefix model. --partial",
	}
	s := c.Flags()
	s.StringVar(&file, "from", "", "the file")
	s.StringVar(&prefix, "prefix", "", "prefix that names in the file have and names in the model lack")
	s.StringArrayVar(&renamed, "rename", nil,
		"the name of a weight in the file and in the model, FILE=MODEL; repeat for more")
	s.BoolVar(&partial, "partial", false, "replace the weights that both have")
	return editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		var tensors map[string]*tensor.Tensor
		var err error
		switch {
		case file == "":
			return nil, cli.Usagef("--from is missing")
		case strings.HasSuffix(file, ".npz"):
			var z *tensor.NPZ
			if z, err = tensor.ReadNPZFile(file, inputs.MaxBytes); err == nil {
				tensors = z.Arrays
			}
		default:
			tensors, err = tensor.ReadSafetensorsFile(file, inputs.MaxBytes)
		}
		if err != nil {
			return nil, err
		}
		named := map[string]*tensor.Tensor{}
		for name, t := range tensors {
			named[strings.TrimPrefix(name, prefix)] = t
		}
		for _, arg := range renamed {
			from, to, ok := strings.Cut(arg, "=")
			if !ok || tensors[from] == nil {
				return nil, cli.Usagef("--rename %q is not FILE=MODEL, or the file has no such weight", arg)
			}
			delete(named, strings.TrimPrefix(from, prefix))
			named[to] = tensors[from]
		}
		r, replaced, err := edit.SetWeights(m, named, partial)
		return &edited{model: r, differs: true,
			changes: []string{fmt.Sprintf("replaced %d of %d weights", len(replaced), len(m.Graph.Initializers))}}, err
	})
}

func editMetadata() *cobra.Command {
	var (
		set, remove []string
		get         string
		docs        bool
	)
	c := &cobra.Command{
		Use:   "metadata MODEL [--get KEY] [-o OUT [--set KEY=VALUE]... [--delete KEY]... [--strip-docs]]",
		Short: "Print and change metadata",
		Long: fmt.Sprintf(`Print the metadata of a model, or change it. Keys are %s,
and any other key is one of metadata_props. metadata_props.KEY always names one of these.`, strings.Join(edit.Fields, ", ")),
		Example: "  onward edit metadata model.onnx --get producer_name\n" +
			"  onward edit metadata model.onnx -o out.onnx --set author=me --set doc_string='classifies digits' " +
			"--delete notes",
	}
	s := c.Flags()
	s.StringArrayVar(&set, "set", nil, "metadata to set, KEY=VALUE; repeat for more")
	s.StringArrayVar(&remove, "delete", nil, "metadata to delete; repeat for more")
	s.StringVar(&get, "get", "", "print the value of a key")
	s.BoolVar(&docs, "strip-docs", false, "delete the documentation of the model and its parts")
	editVerb(c, 1e-5, func(_ context.Context, m *onnx.Model) (*edited, error) {
		if len(set) == 0 && len(remove) == 0 && !docs {
			return nil, cli.Usagef("what to change is missing: --set, --delete or --strip-docs")
		}
		var list []edit.KeyValue
		for _, arg := range set {
			k, v, ok := strings.Cut(arg, "=")
			if !ok || k == "" {
				return nil, cli.Usagef("--set %q is not KEY=VALUE", arg)
			}
			list = append(list, edit.KeyValue{Key: k, Value: v})
		}
		r, err := edit.SetMetadata(m, list, remove, docs)
		return &edited{model: r}, err
	})
	change := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if s.Changed("output") || len(set) > 0 || len(remove) > 0 || docs {
			return change(cmd, args)
		}
		m, err := modelfile.Load(args[0])
		if err != nil {
			return err
		}
		defer m.Close()
		return printMetadata(cmd.OutOrStdout(), edit.Metadata(m), get, s.Lookup("json").Changed)
	}
	return c
}

// printMetadata prints all metadata, or the value of one key.
func printMetadata(w io.Writer, list []edit.KeyValue, get string, asJSON bool) error {
	if get != "" {
		i := slices.IndexFunc(list, func(kv edit.KeyValue) bool { return kv.Key == get })
		if i < 0 {
			return fmt.Errorf("the model has no metadata %q", get)
		}
		list = list[i : i+1]
	}
	if asJSON {
		return text.JSON(w, list)
	}
	for _, kv := range list {
		if get != "" {
			fmt.Fprintln(w, text.Escape(kv.Value))
		} else {
			fmt.Fprintf(w, "%s: %s\n", text.Name(kv.Key), text.Indent(kv.Value, "  "))
		}
	}
	return nil
}

func editDiff() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "List how two models differ",
		Long: `List the differences of two models: opsets and metadata, inputs and outputs, numbers of
operators, nodes and their attributes, weights, inferred shapes. Nodes are matched by
name. The exit code is 1 if there are any. To compare results, use onward compare.`,
		Example: "  onward edit diff model.onnx simple.onnx\n  onward edit diff old.onnx new.onnx --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var m [2]*onnx.Model
			for i, name := range args {
				var err error
				if m[i], err = modelfile.Load(name); err != nil {
					return err
				}
				defer m[i].Close()
			}
			d, err := edit.Compare(m[0], m[1])
			if err != nil {
				return err
			}
			if asJSON {
				err = text.JSON(cmd.OutOrStdout(), d)
			} else {
				printDiff(cmd.OutOrStdout(), d)
			}
			if err == nil && !d.Empty() {
				err = cli.Printed{Err: errors.New("the models differ"), Complete: true}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printDiff(w io.Writer, d *edit.Diff) {
	if d.Empty() {
		fmt.Fprintln(w, "no differences")
		return
	}
	if len(d.Operators) > 0 {
		fmt.Fprintln(w, "operators")
		for _, op := range slices.Sorted(maps.Keys(d.Operators)) {
			fmt.Fprintf(w, "  %s: %d -> %d\n", text.Name(op), d.Operators[op][0], d.Operators[op][1])
		}
	}
	for _, s := range []struct {
		title string
		list  []edit.Change
	}{{"model", d.Model}, {"inputs", d.Inputs}, {"outputs", d.Outputs}, {"nodes", d.Nodes}, {"weights", d.Weights},
		{"shapes", d.Values}} {
		if len(s.list) > 0 {
			fmt.Fprintln(w, s.title)
		}
		for _, c := range s.list {
			name := text.Name(c.Name)
			if s.title == "nodes" || s.title == "weights" {
				name += " " + text.Name(c.What)
			}
			switch {
			case c.What == "elements":
				fmt.Fprintf(w, "  %s %s: %s\n", text.Name(c.Name), text.Name(c.A), text.Name(c.B))
			case c.B == "":
				fmt.Fprintf(w, "  - %s: %s\n", name, text.Name(c.A))
			case c.A == "":
				fmt.Fprintf(w, "  + %s: %s\n", name, text.Name(c.B))
			default:
				fmt.Fprintf(w, "  %s: %s -> %s\n", name, text.Name(c.A), text.Name(c.B))
			}
		}
	}
}
