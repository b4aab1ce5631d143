package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
)

func TestLabel(t *testing.T) {
	dir := t.TempDir()
	if err := modelfolder.Write(dir, "colors"); err != nil {
		t.Fatal(err)
	}
	m := image.NewRGBA(image.Rect(0, 0, 5, 4))
	for i := range 20 {
		m.Set(i%5, i/5, color.RGBA{30, 180, 90, 255})
	}
	file := filepath.Join(dir, "grass.png")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, m); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := label(t.Context(), &b, dir, []string{file}, 2); err != nil {
		t.Fatal(err)
	}
	if want := "grass.png (5×4): green 75 % blue 18 %\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	if err := label(t.Context(), &b, dir, []string{filepath.Join(dir, "config.json")}, 2); err == nil {
		t.Error("want an error for a file that is no image")
	}
}
