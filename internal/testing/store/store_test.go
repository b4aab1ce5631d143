package store

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for _, name := range files {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("contents of " + name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tgzOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for _, h := range headers {
		body := []byte(nil)
		if h.Typeflag == tar.TypeReg {
			body = []byte("contents of " + h.Name)
		}
		h.Size, h.Mode = int64(len(body)), 0o644
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExtractZipKeepsThePrefixOnly(t *testing.T) {
	dir := t.TempDir()
	n, err := ExtractZip(zipOf(t, "data/a/x", "data/y", "other/z"), "data/", dir)
	if err != nil || n != 2 {
		t.Fatalf("ExtractZip = %d, %v, want 2 files", n, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "a", "x"))
	if err != nil || string(b) != "contents of data/a/x" {
		t.Fatalf("a/x holds %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "z")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("z exists: %v", err)
	}
}

func TestExtractStaysInside(t *testing.T) {
	names := []string{"data/../../evil", "data//etc/evil", "data/a/../../../evil", "data/.", "data/x\x00y"}
	for _, name := range names {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := ExtractZip(zipOf(t, name), "data/", dir); err == nil {
			t.Errorf("ExtractZip accepts %q", name)
		}
		if !strings.Contains(name, "\x00") {
			archive := tgzOf(t, tar.Header{Typeflag: tar.TypeReg, Name: name})
			cut := func(s string) (string, bool) { return strings.CutPrefix(s, "data/") }
			if _, err := ExtractTgz(archive, dir, cut); err == nil {
				t.Errorf("ExtractTgz accepts %q", name)
			}
		}
		if e, _ := os.ReadDir(outer); len(e) != 1 {
			t.Errorf("%q leaves %v beside the folder", name, e)
		}
	}
}

func TestExtractTgzSkipsLinks(t *testing.T) {
	dir := t.TempDir()
	archive := tgzOf(t,
		tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"},
		tar.Header{Typeflag: tar.TypeReg, Name: "f"})
	n, err := ExtractTgz(archive, dir, func(s string) (string, bool) { return s, true })
	if err != nil || n != 1 {
		t.Fatalf("ExtractTgz = %d, %v, want 1 file", n, err)
	}
}

func TestExtractRefusesTheSameNameTwice(t *testing.T) {
	if _, err := ExtractZip(zipOf(t, "d/a", "d/a"), "d/", t.TempDir()); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("err = %v, want fs.ErrExist", err)
	}
}

func TestInstallVerifyRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parts", "p-1")
	fill := func(tmp string) (Record, error) {
		return Record{Source: "test", Version: "1"}, os.WriteFile(filepath.Join(tmp, "f"), []byte("good"), 0o644)
	}
	if _, err := Verify(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Verify before Install: %v, want fs.ErrNotExist", err)
	}
	first, err := Install(dir, "", fill)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(dir); err != nil || got != first {
		t.Fatalf("Verify = %+v, %v, want %+v", got, err, first)
	}
	if _, err := Install(dir, first.Tree, fill); err != nil {
		t.Fatalf("second Install: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("bad"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir); err == nil {
		t.Fatal("Verify accepts a changed file")
	}
	if _, err := Install(dir, first.Tree, fill); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir); err != nil {
		t.Fatalf("Verify after repair: %v", err)
	}
	if e, _ := os.ReadDir(filepath.Dir(dir)); len(e) != 1 {
		t.Errorf("left over: %v", e)
	}
}

func TestInstallRefusesAnotherTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	_, err := Install(dir, strings.Repeat("0", 64), func(tmp string) (Record, error) {
		return Record{}, os.WriteFile(filepath.Join(tmp, "f"), nil, 0o644)
	})
	if err == nil {
		t.Fatal("Install accepts a tree with another sum")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder exists: %v", err)
	}
}

func TestCheckFile(t *testing.T) {
	f := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(f, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, appendix B.1
	if _, err := CheckFile(f, abc); err != nil {
		t.Error(err)
	}
	if _, err := CheckFile(f, strings.Repeat("0", 64)); err == nil {
		t.Error("CheckFile accepts a wrong sum")
	}
}
