package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/internal/testing/bandwidth"
	"github.com/onward-ml/onward/tensor"
)

// probeVerb is a hidden verb that runs in a fresh process: bench measures loading and memory with
// it, and other verbs try native libraries, whose crashes end the process.
const probeVerb = "probe"

// probe is the output of that verb.
type probe struct {
	LoadMS    float64 `json:"load_ms"`
	FirstMS   float64 `json:"first_ms"`
	PeakRSSMB float64 `json:"peak_rss_mb"`
	Error     string  `json:"error,omitempty"`
}

// runProbe opens a model in a fresh process, and runs it with the inputs in o.feedDir, if any.
func runProbe(ctx context.Context, path, provider string, o *benchOptions) (*probe, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start another process: %w", err)
	}
	args := []string{probeVerb, path, "--provider", provider, "--threads", strconv.Itoa(o.threads),
		"--map-weights=" + strconv.FormatBool(o.mapWeights), "--precision", o.precision.String(), "--inputs", o.feedDir}
	for _, s := range o.own {
		args = append(args, "--option", s)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p := new(probe)
	if err == nil {
		err = json.Unmarshal(out, p)
	}
	if err != nil {
		return nil, fmt.Errorf("provider %s: the process that opened and ran the model has ended: %s", provider,
			cmp.Or(crash(stderr.String()), err.Error()))
	}
	if p.Error != "" {
		return nil, errors.New(p.Error)
	}
	return p, nil
}

// crash returns the line in which Go's runtime names the signal or error that ended a process, or
// "".
func crash(stderr string) string {
	for line := range strings.Lines(stderr) {
		for _, start := range []string{"SIG", "fatal error: ", "panic: "} {
			if strings.HasPrefix(line, start) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// feed holds the inputs of a model.
type feed struct {
	*inputs.Feed
	args []onward.NodeArg
	read int64 // bytes of weights and inputs that a run reads
}

// drawInputs makes the inputs of a model file: those that the flags give, and with
// all set the others.
func drawInputs(ctx context.Context, path string, flags *inputs.Flags, all bool) (*feed, error) {
	m, d, err := modelfile.Describe(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	f, err := flags.Feed(ctx, m, all)
	if err != nil {
		return nil, err
	}
	read := bandwidth.Weights(m.Graph)
	for _, v := range f.Values {
		if t, ok := v.(*tensor.Tensor); ok {
			read += int64(len(t.Bytes()))
		}
	}
	return &feed{f, slices.Concat(d.Inputs, d.OverridableInitializers), read}, nil
}

// tempFolder writes the inputs to a new folder. The caller removes it.
func (f *feed) tempFolder() (string, error) {
	dir, err := os.MkdirTemp("", "onward-bench-")
	if err != nil {
		return "", err
	}
	if err := f.Write(dir, f.args); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

func benchProbeCommand() *cobra.Command {
	var o benchOptions
	var provider string
	c := &cobra.Command{
		Use: probeVerb + " MODEL", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Load a model, run it and print the times, the peak memory and the error",
		RunE: func(cmd *cobra.Command, args []string) error {
			var p probe
			if err := p.measure(cmd.Context(), args[0], provider, &o); err != nil {
				p.Error = err.Error()
			}
			return text.JSON(cmd.OutOrStdout(), p)
		},
	}
	f := c.Flags()
	f.StringVar(&provider, "provider", "cpu", "the engine")
	session.OptionFlag(f, &o.own)
	session.ThreadsFlag(f, &o.threads)
	session.MapWeightsFlag(f, &o.mapWeights)
	session.PrecisionFlag(f, &o.precision)
	f.StringVar(&o.feedDir, "inputs", "", "a folder with the inputs; without it, the model does not run")
	return c
}

func (p *probe) measure(ctx context.Context, path, provider string, o *benchOptions) error {
	start := time.Now()
	sess, err := openForBench(ctx, path, provider, o)
	if err != nil {
		return err
	}
	defer sess.Close()
	p.LoadMS = text.Milliseconds(time.Since(start))
	if o.feedDir == "" {
		return nil
	}
	feed, err := inputs.ReadFolder(o.feedDir, slices.Concat(sess.Inputs(), sess.OverridableInitializers()))
	if err != nil {
		return err
	}
	for i := range 5 {
		start := time.Now()
		if _, err := sess.Run(ctx, feed, nil); err != nil {
			return err
		}
		if i == 0 {
			p.FirstMS = text.Milliseconds(time.Since(start))
		}
	}
	p.PeakRSSMB = float64(peakRSS()) / (1 << 20)
	return nil
}

// peakRSS returns the peak resident memory of the process in bytes; 0 if the system does
// not report it.
func peakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}
