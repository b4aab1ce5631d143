package backendtest

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The limits of a download.
const (
	maxDownload = 8 << 30  // bytes of an archive
	maxUnpacked = 16 << 30 // bytes of the files in it
	maxFiles    = 10_000
	tries       = 3
)

// retryAfter returns the time between try n and the next one, as in ONNX's runner.
var retryAfter = func(n int) time.Duration { return time.Duration(5*n) * time.Second }

// modelsDir returns the folder of downloaded models.
func (r *Runner) modelsDir() (string, error) {
	if r.opts.CacheDir != "" {
		return r.opts.CacheDir, nil
	}
	if d := os.Getenv("ONNX_MODELS"); d != "" {
		return d, nil
	}
	home := os.Getenv("ONNX_HOME")
	if home == "" {
		home = filepath.Join("~", ".onnx")
	}
	if rest, ok := strings.CutPrefix(home, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("backendtest: no folder for models, set ONNX_MODELS: %w", err)
		}
		home = user + rest
	}
	return filepath.Join(home, "models"), nil
}

// remote returns the folder of a model that the suite refers to by its URL. It downloads the
// model if it is not in the cache.
func (r *Runner) remote(ctx context.Context, c *TestCase) (string, error) {
	models, err := r.modelsDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(models, c.ModelName)
	if _, err := os.Stat(filepath.Join(dir, "model.onnx")); err == nil {
		return dir, nil
	}
	if r.opts.Fetch == nil {
		return "", &skipError{fmt.Sprintf("model %s is not in %s; without Options.Fetch it is not downloaded from %s",
			c.ModelName, models, c.URL)}
	}
	if err := setAside(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(models, 0o777); err != nil {
		return "", fmt.Errorf("backendtest: %w", err)
	}
	for n := 1; ; n++ {
		err = r.download(ctx, c.URL, models)
		if err == nil {
			break
		}
		if n == tries || ctx.Err() != nil {
			return "", fmt.Errorf("backendtest: model %s, %d tries: %w", c.ModelName, n, err)
		}
		select {
		case <-time.After(retryAfter(n)):
		case <-ctx.Done():
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "model.onnx")); err != nil {
		return "", fmt.Errorf("backendtest: the archive at %s: %w", c.URL, err)
	}
	return dir, nil
}

// setAside renames a folder without a model to NAME.old.N.
func setAside(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := 0; ; i++ {
		old := fmt.Sprintf("%s.old.%d", dir, i)
		if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(dir, old)
		}
	}
}

func (r *Runner) download(ctx context.Context, url, into string) error {
	body, err := r.opts.Fetch(ctx, url)
	if err != nil {
		return err
	}
	defer body.Close()
	return unpack(io.LimitReader(body, maxDownload), into)
}

// unpack writes the folders and files of a tar archive, which may be compressed by gzip, below a
// folder. Links and paths out of the folder are errors.
func unpack(in io.Reader, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	br := bufio.NewReader(in)
	var src io.Reader = br
	if magic, _ := br.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return err
		}
		defer z.Close()
		src = z
	}
	left := int64(maxUnpacked)
	tr := tar.NewReader(src)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if n == maxFiles {
			return fmt.Errorf("archive: more than %d files", maxFiles)
		}
		if left -= h.Size; left < 0 {
			return fmt.Errorf("archive: more than %d bytes", int64(maxUnpacked))
		}
		if err := unpackFile(root, h, tr); err != nil {
			return fmt.Errorf("archive: %q: %w", h.Name, err)
		}
	}
}

func unpackFile(root *os.Root, h *tar.Header, in io.Reader) error {
	name := filepath.FromSlash(strings.TrimSuffix(h.Name, "/"))
	if !filepath.IsLocal(name) {
		return errors.New("the path points outside the folder")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o777)
	case tar.TypeReg:
	default:
		return fmt.Errorf("type %q is neither a file nor a folder", h.Typeflag)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}
