// Command providers runs the ONNX backend suite on every provider of this machine
// and writes docs/providers.md: how many cases of each kind pass, and which providers are
// not available. `make providers` runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/internal/testing/scores"
	"github.com/onward-ml/onward/internal/testing/suite"
	_ "github.com/onward-ml/onward/provider/openvino"
	_ "github.com/onward-ml/onward/provider/ort"
)

// providers are the columns of the table, in order.
var providers = []string{"cpu", "reference", "ort", "openvino", "ort:cuda", "ort:tensorrt",
	"ort:openvino", "ort:webgpu"}

// kinds maps kinds of cases to their names in the table, if these differ.
var kinds = map[string]string{"real": "light"}

func main() {
	out := flag.String("out", "", "write the document to this file (default: standard output)")
	flag.Parse()
	if flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := write(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "providers:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, out string) error {
	s, err := suite.Find()
	if err != nil {
		return fmt.Errorf("%w; `make suite` fetches it", err)
	}
	var ran []*scores.Report
	var absent [][2]string
	for _, name := range providers {
		if err := driver.Lookup(name).Available(driver.Config{Name: name}); err != nil {
			absent = append(absent, [2]string{name, reason(err)})
			continue
		}
		fmt.Fprintln(os.Stderr, "running the suite on", name)
		r, err := scores.Run(ctx, s.Dir, name, nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		ran = append(ran, r)
	}
	doc := document(s.Version, ran, absent)
	if out == "" {
		_, err := os.Stdout.Write(doc)
		return err
	}
	return os.WriteFile(out, doc, 0o644)
}

// reason returns why a provider is not available, without paths of this machine: the last
// error other than a missing file.
func reason(err error) string {
	var nf *dl.NotFoundError
	if !errors.As(err, &nf) {
		return strings.SplitN(err.Error(), "\n", 2)[0]
	}
	for _, a := range slices.Backward(nf.Tried) {
		if !errors.Is(a.Err, dl.ErrAbsent) && a.Source != "the system's loader" {
			return a.Err.Error()
		}
	}
	return "the library is not on this machine"
}

const head = `# What each provider passes

This page says how many cases of the ONNX %s backend suite, and of the nine light models, each provider passes. It is
written by ` + "`make providers`" + `. A case passes if all results of all its data sets are within the suite's tolerance. It is
refused if the provider returns an error, mostly for missing operators and types. It differs if the provider returns other
results. ` + "`onward conformance --provider P`" + ` lists the cases of one provider with their errors.

Run on %s/%s with %s.

`

const devices = `
## Devices without a device

` + "`" + `make test-devices` + "`" + ` fetches these libraries and runs the tests on a machine without a GPU.

| provider | library | tests | cases of the suite that pass |
|---|---|---|---|
| ort:openvino | onnxruntime-openvino 1.24.1, on the CPU | internal/testing/ortopenvino: TestSuite, TestPresets, TestOptions | 1598 of 1914 (279 refused, 37 differ) |
| ort:webgpu | ONNX Runtime 1.30.0, and 1.31.1 with onnxruntime-ep-webgpu 0.4.0, on Mesa's lavapipe 25.0.7, a Vulkan device in software | internal/testing/webgpu: TestSuite, TestBinding, TestConcurrent, TestOptions | 1715 of 1914 (182 refused, 17 differ) |
| ort:cuda, ort:tensorrt | onnxruntime-gpu 1.31.1 on internal/testing/fakecuda, a stand-in for CUDA's runtime that copies and does not compute | internal/testing/fakecuda; bench/gpu: TestStandIn | the 57 that only copy |

Each test lists the cases that do not pass by name or error, with the reason, and fails if another does not pass. Two of
ort:webgpu's are left out, because they end the process on lavapipe: test_attention_4d_fp16_expanded and
test_attention_4d_gqa_with_past_and_present_fp16_expanded.
`

func document(version string, ran []*scores.Report, absent [][2]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, version, runtime.GOOS, runtime.GOARCH, strings.Join(versions(), ", "))
	b.WriteString("| kind | cases |")
	rule := "|---|---:|"
	for _, r := range ran {
		fmt.Fprintf(&b, " %s |", r.Provider)
		rule += "---:|"
	}
	b.WriteString("\n" + rule + "\n")
	row := func(kind string, of func(*scores.Report) scores.Score) {
		total := 0
		for _, r := range ran {
			total = max(total, of(r).Total())
		}
		fmt.Fprintf(&b, "| %s | %d |", kind, total)
		for _, r := range ran {
			s := of(r)
			fmt.Fprintf(&b, " %d", s.Passed)
			if s.Passed < s.Total() {
				fmt.Fprintf(&b, " (%d refused, %d differ)", s.Refused, s.Differ)
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	for _, k := range scores.Kinds {
		word := k
		if w := kinds[k]; w != "" {
			word = w
		}
		row(word, func(r *scores.Report) scores.Score { return r.ByKind[k] })
	}
	row("all", (*scores.Report).All)
	if len(absent) > 0 {
		b.WriteString("\n## Not run\n\nThe machine has no such library or device. `go run ./bench/gpu` checks the " +
			"first two on one with an NVIDIA GPU.\n\n| provider | why |\n|---|---|\n")
		for _, a := range absent {
			fmt.Fprintf(&b, "| %s | %s |\n", a[0], strings.ReplaceAll(a[1], "|", "\\|"))
		}
		b.WriteString("| openvino with device GPU or NPU | the machine has neither |\n")
	}
	b.WriteString(devices)
	for _, r := range ran {
		if len(r.Differ) > 0 {
			fmt.Fprintf(&b, "\n## Where %s differs\n\nThe provider's suite_test.go says in what.\n\n", r.Provider)
			for _, name := range r.Differ {
				fmt.Fprintf(&b, "- %s\n", name)
			}
		}
	}
	return b.Bytes()
}

// versions returns the versions of Go and of the native libraries.
func versions() []string {
	v := []string{runtime.Version()}
	for _, name := range []string{"ort", "openvino"} {
		if l, err := driver.Lookup(name).(driver.LibraryUser).Library(driver.Config{Name: name}); err == nil {
			release, _, _ := strings.Cut(l.Version, "-")
			v = append(v, l.Name+" "+release)
		}
	}
	return v
}
