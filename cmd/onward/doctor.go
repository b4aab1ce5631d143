package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/nativelib"
	"github.com/onward-ml/onward/cmd/onward/internal/peak"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/cpu"
)

// doctorJSON is the output of --json.
type doctorJSON struct {
	System  string      `json:"system"` // "linux/amd64"
	Go      string      `json:"go"`
	Threads int         `json:"threads"`
	CPU     doctorCPU   `json:"cpu"`
	Caches  []cpu.Cache `json:"caches"`
	// Peaks are those of one thread and of all.
	Peaks     []peak.Peak     `json:"peaks,omitempty"`
	Devices   []string        `json:"devices"` // besides the CPU
	Providers []doctorLibrary `json:"providers"`
}

type doctorCPU struct {
	Detected string `json:"detected"` // the best level of kernels for it
	Active   string `json:"active"`   // the level in use
	VNNI     bool   `json:"vnni"`
	AMX      bool   `json:"amx"`
	SDOT     bool   `json:"sdot"`
	I8MM     bool   `json:"i8mm"`
	Notice   string `json:"notice,omitempty"`
}

type doctorLibrary struct {
	Name      string          `json:"name"`
	Available bool            `json:"available"`
	Needs     string          `json:"needs"`
	Missing   string          `json:"missing,omitempty"`
	Library   *driver.Library `json:"library,omitempty"`

	err error // Missing as an error
}

func doctorCommand() *cobra.Command {
	var asJSON, measure bool
	var own session.ProviderOptions
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show kernels, native libraries and devices of this machine",
		Long: `Show what the providers find on this machine: caches, instruction sets and the selected
kernels, the measured peak of arithmetic and memory, native libraries with paths and
versions, and devices. For a missing library, list the searched paths and how to install it.`,
		Example: `  onward doctor
  onward doctor --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := own.Named(); err != nil {
				return err
			}
			d, err := diagnose(own)
			if err != nil {
				return err
			}
			if measure {
				d.Peaks = append(d.Peaks, peak.Measure(1, nil))
				if d.Threads > 1 {
					d.Peaks = append(d.Peaks, peak.Measure(d.Threads, nil))
				}
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), d)
			}
			printDoctor(cmd.OutOrStdout(), d)
			return nil
		},
	}
	session.OptionFlag(c.Flags(), &own)
	c.Flags().BoolVar(&measure, "peak", true, "measure the peak of the machine")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func diagnose(own session.ProviderOptions) (*doctorJSON, error) {
	d := &doctorJSON{System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Threads: runtime.GOMAXPROCS(0),
		Caches: cpu.Caches(), Devices: []string{}}
	d.CPU = doctorCPU{Detected: cpu.Detected().String(), Active: cpu.Active().String(), VNNI: cpu.VNNI(cpu.Active()),
		AMX: cpu.AMX(cpu.Active()), SDOT: cpu.DotProduct(cpu.Active()), I8MM: cpu.Int8Matrix(cpu.Active()),
		Notice: cpu.Notice()}
	gpus, _ := filepath.Glob("/dev/nvidia[0-9]*")
	dri, _ := filepath.Glob("/dev/dri/renderD*")
	d.Devices = append(append(d.Devices, gpus...), dri...)
	if b, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		first, _, _ := strings.Cut(string(b), "\n")
		d.Devices = append(d.Devices, strings.TrimSpace(first))
	}
	for _, n := range onward.Providers() {
		p := doctorLibrary{Name: n, Needs: "nothing"}
		options, err := own.For(n)
		if err != nil {
			return nil, err
		}
		c := driver.Config{Name: n, Options: options}
		err = driver.Lookup(n).Available(c)
		p.Available = err == nil
		if err != nil {
			p.Missing, p.err = err.Error(), err
		}
		if u, ok := driver.Lookup(n).(driver.LibraryUser); ok {
			p.Needs = u.Needs()
			p.Library, _ = u.Library(c) // its error is part of Available's
		}
		d.Providers = append(d.Providers, p)
	}
	return d, nil
}

func printDoctor(w io.Writer, d *doctorJSON) {
	fmt.Fprintf(w, "system    %s, %s, %d threads\n", d.System, d.Go, d.Threads)
	fmt.Fprintf(w, "kernels   %s", d.CPU.Active)
	if e := cpu.Extension(cpu.Active()); e != "" {
		fmt.Fprint(w, " with ", e)
	}
	if d.CPU.Active != d.CPU.Detected {
		fmt.Fprintf(w, " (the machine has %s)", d.CPU.Detected)
	}
	fmt.Fprintln(w)
	if d.CPU.Notice != "" {
		fmt.Fprintf(w, "          %s\n", d.CPU.Notice)
	}
	if len(d.Caches) > 0 {
		list := make([]string, len(d.Caches))
		for i, c := range d.Caches {
			list[i] = fmt.Sprintf("level %d %s", c.Level, text.Bytes(c.Bytes))
			if c.CPUs > 1 {
				list[i] += fmt.Sprintf(" for %d processors", c.CPUs)
			}
		}
		fmt.Fprintf(w, "caches    %s\n", strings.Join(list, ", "))
	}
	for _, p := range d.Peaks {
		threads := fmt.Sprintf("%d threads", p.Threads)
		if p.Threads == 1 {
			threads = "one thread"
		}
		fmt.Fprintf(w, "peak      %s: %s\n", threads, peakText(&p))
	}
	devices := "CPU only"
	if len(d.Devices) > 0 {
		devices = strings.Join(d.Devices, ", ")
	}
	fmt.Fprintf(w, "devices   %s\n\n", text.Escape(devices))
	for _, p := range d.Providers {
		mark := "ok"
		if !p.Available {
			mark = "missing"
		}
		fmt.Fprintf(w, "%-14s %-8s needs %s\n", p.Name, mark, p.Needs)
		if l := p.Library; l != nil {
			fmt.Fprintf(w, "  %s %s", l.Name, l.Version)
			if l.APIVersion > 0 {
				fmt.Fprintf(w, ", C API %d", l.APIVersion)
			}
			fmt.Fprintf(w, ", with %s\n  %s (%s)\n", strings.Join(l.Providers, ", "), text.Escape(l.Path), l.Source)
		}
		if p.Missing != "" {
			_, why, ok := strings.Cut(p.Missing, "is not available: ")
			if !ok {
				why = p.Missing
			}
			lines, empty := nativelib.PresentPaths(why, p.err)
			for _, line := range lines {
				fmt.Fprintf(w, "  %s\n", line)
			}
			if empty > 0 {
				fmt.Fprintf(w, "  %d more paths do not exist; --json lists them.\n", empty)
			}
		}
	}
}
