//go:build !core

package main

import (
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/calibration"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// digitData writes images for digits.onnx as a folder of .png files and as a .npz file.
func digitData(t *testing.T) (folder, npz string) {
	t.Helper()
	dir := t.TempDir()
	folder = filepath.Join(dir, "images")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	all := make([]float32, 6*64)
	for i := range 6 {
		img := image.NewGray(image.Rect(0, 0, 8, 8))
		for k := range 64 {
			v := uint8((k*37 + i*101) % 256)
			img.SetGray(k%8, k/8, color.Gray{Y: v})
			all[i*64+k] = float32(v) / 255
		}
		f, err := os.Create(filepath.Join(folder, string(rune('a'+i))+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, img); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	var z tensor.NPZ
	if err := z.Add("image", tensor.Must(tensor.New(all, 6, 1, 8, 8))); err != nil {
		t.Fatal(err)
	}
	npz = filepath.Join(dir, "digits.npz")
	if err := tensor.WriteNPZFile(npz, &z, false); err != nil {
		t.Fatal(err)
	}
	return folder, npz
}

func TestCalibrateCommand(t *testing.T) {
	folder, npz := digitData(t)
	out := filepath.Join(t.TempDir(), "new", "tables")
	text, stderr := command(t, exitOK, "calibrate", "digits.onnx", "--data", folder, "-o", out)
	if !strings.Contains(text, "by minmax over 6 batches") || stderr != "" {
		t.Errorf("output %q, errors %q", text, stderr)
	}
	table, err := calibration.ReadFile(filepath.Join(out, calibration.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	if r := table.Ranges["image"]; r.Lowest < 0 || r.Highest < 0.9 || r.Highest > 1 {
		t.Errorf("image goes from %g to %g", r.Lowest, r.Highest)
	}
	for _, f := range []string{calibration.FlatBuffersFile, calibration.CacheFile} {
		other, err := calibration.ReadFile(filepath.Join(out, f))
		if err != nil || !slices.Equal(other.Names(), table.Names()) {
			t.Errorf("%s: %v, %v", f, other, err)
		}
	}
	// The same images in one array give the same ranges, whole and cut.
	for _, batch := range []string{"0", "4"} {
		file := filepath.Join(t.TempDir(), "t.json")
		text, _ = command(t, exitOK, "calibrate", "digits.onnx", "--data", npz, "--batch", batch, "--format", "json",
			"-o", file, "--json")
		var r calibrateJSON
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"0": 1, "4": 2}[batch]; r.Batches != want || len(r.Tensors) != len(table.Ranges) ||
			!slices.Equal(r.Files, []string{file}) {
			t.Errorf("--batch %s: %+v", batch, r)
		}
		again, err := calibration.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := again.Ranges["image"], table.Ranges["image"]; a.Lowest != b.Lowest || a.Highest != b.Highest {
			t.Errorf("image is %v, from images %v", a, b)
		}
	}
	// Numbers in names are in their order.
	b := onnx.NewModel("m").Opset("", 17)
	b.Input("v9", onnx.Float, 4).Output("v100", onnx.Float, 4)
	b.Node("Neg", []string{"v9"}, []string{"v10"})
	b.Node("Abs", []string{"v10"}, []string{"v11"})
	b.Node("Neg", []string{"v11"}, []string{"v100"})
	text, _ = command(t, exitOK, "calibrate", saveModel(t, b.Must()), "--data", "random:2", "-o", t.TempDir())
	order := regexp.MustCompile(`(?m)^v\d+`).FindAllString(text, -1)
	if !slices.Equal(order, []string{"v9", "v10", "v11", "v100"}) {
		t.Errorf("the ranges are in the order %v", order)
	}
	for _, bad := range [][]string{
		{}, {"--data", npz, "--method", "luck"}, {"--data", npz, "--format", "xml"}, {"--data", "random:none"}, {"--data", npz, "--batch", "-1"},
		{"--data", npz, "--percentile", "101"}, {"--data", npz, "--provider", "none"}, {"--data", npz, "--method", "entropy", "--moving-average"}, {"--data", npz, "--bins", "3"},
	} {
		command(t, exitUsage, append([]string{"calibrate", "digits.onnx", "-o", t.TempDir()}, bad...)...)
	}
	command(t, exitUsage, "calibrate")
	empty := t.TempDir()
	for _, bad := range []string{filepath.Join(empty, "absent.npz"), empty} {
		command(t, exitFailed, "calibrate", "digits.onnx", "-o", empty, "--data", bad)
	}
	command(t, exitFailed, "calibrate", "mul_1.onnx", "-o", empty, "--data", npz)
	if list, _ := os.ReadDir(empty); len(list) != 0 {
		t.Errorf("a failed calibration leaves %v", list)
	}
}
