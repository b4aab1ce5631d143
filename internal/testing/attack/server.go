package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onward-ml/onward/onnx"
)

const (
	totalMemory = 128 << 20 // --total-memory of the servers
	overhead    = 64 << 20  // what a server may use in addition
	token       = "correct-horse-battery-staple"
	readTimeout = time.Second
)

// build builds cmd/onward.
func (a *attack) build() error {
	a.command = filepath.Join(a.scratch, "onward")
	c := exec.Command("go", "build", "-o", a.command, "./cmd/onward")
	c.Dir = a.root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building cmd/onward: %w\n%s", err, out)
	}
	return nil
}

// server is a process of onward serve.
type server struct {
	cmd    *exec.Cmd
	http   string // addresses
	grpc   string
	ended  chan struct{} // closed when the process has ended
	err    error         // of the process
	most   int64         // largest resident memory that check has found
	logs   io.Closer     // the end of the pipe of its log that we read
	mu     sync.Mutex
	output bytes.Buffer // what it has written
}

// repository writes a model repository: m negates [n, 2] floats in batches, s copies strings, and w
// makes 1 MiB of a float.
func repository(dir string) error {
	for _, name := range []string{"m", "s", "w"} {
		b := onnx.NewModel(name).Opset("", 17).IRVersion(8)
		config := ""
		switch name {
		case "m":
			b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2).Node("Neg", []string{"x"}, []string{"y"})
			config = "max_batch_size: 64 dynamic_batching { max_queue_delay_microseconds: 20000 }"
		case "s":
			b.Input("x", onnx.String, "n", 2).Output("y", onnx.String, "n", 2)
			b.Node("Identity", []string{"x"}, []string{"y"})
		default:
			b.Initializer("shape", []int64{1 << 18}).Input("x", onnx.Float, 1).Output("y", onnx.Float, 1<<18)
			b.Node("Expand", []string{"x", "shape"}, []string{"y"})
		}
		m, err := b.Model()
		if err != nil {
			return err
		}
		version := filepath.Join(dir, name, "1")
		if err := errors.Join(os.MkdirAll(version, 0o777), onnx.WriteFile(filepath.Join(version, "model.onnx"), m, nil),
			os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(config), 0o666)); err != nil {
			return err
		}
	}
	return nil
}

// start starts a server with a new repository and all endpoints. wait says whether to wait until it
// listens.
func (a *attack) start(wait bool, args ...string) (*server, error) {
	repo, err := os.MkdirTemp(a.scratch, "repository")
	if err != nil {
		return nil, err
	}
	if err := repository(repo); err != nil {
		return nil, err
	}
	return a.serve(repo, wait, args...)
}

// serve starts a server like start, with a repository that exists.
func (a *attack) serve(repo string, wait bool, args ...string) (*server, error) {
	s := &server{ended: make(chan struct{}), cmd: exec.Command(a.command, append([]string{"serve", repo,
		"--listen", "127.0.0.1", "--http", ":0", "--grpc", ":0", "--metrics", "", "--model-control", "--shared-memory",
		"--total-memory", fmt.Sprint(totalMemory), "--max-memory", fmt.Sprint(totalMemory / 2),
		"--read-timeout", readTimeout.String(), "--timeout", "20s"}, args...)...)}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	s.logs = log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	listening := make(chan struct{})
	go func() {
		for lines := bufio.NewReader(log); ; {
			line, err := lines.ReadBytes('\n')
			var r struct{ Msg, Protocol, Address string }
			if json.Unmarshal(line, &r) == nil && r.Msg == "listening" {
				if r.Protocol == "http" {
					s.http = r.Address
				} else if s.grpc = r.Address; r.Protocol == "grpc" {
					close(listening)
				}
			}
			s.mu.Lock()
			if s.output.Len() < 1<<20 {
				s.output.Write(line)
			}
			s.mu.Unlock()
			if err != nil {
				break
			}
		}
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if !wait {
		return s, nil
	}
	select {
	case <-listening:
		return s, nil
	case <-s.ended:
	case <-time.After(30 * time.Second):
		s.kill()
	}
	return nil, fmt.Errorf("the server does not start: %v\n%s", s.err, s.log())
}

// shared returns a server that requires the token, and open one without tokens. Families use them
// until forget.
func (a *attack) shared() (*server, error) {
	return a.running(0, "--token-file", filepath.Join(a.scratch, "tokens"))
}

func (a *attack) open() (*server, error) { return a.running(1) }

func (a *attack) running(i int, args ...string) (s *server, err error) {
	if a.servers[i] == nil {
		if err := os.WriteFile(filepath.Join(a.scratch, "tokens"), []byte(token+"\n"), 0o600); err != nil {
			return nil, err
		}
		a.servers[i], err = a.start(true, args...)
	}
	return a.servers[i], err
}

// forget ends a server that an attack has damaged.
func (a *attack) forget(s *server) {
	s.kill()
	for i, o := range a.servers {
		if o == s {
			a.servers[i] = nil
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// log returns what the server has written.
func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// stop sends a signal and waits until the server has ended. It returns an error if that takes
// longer than limit, or if the server fails.
func (s *server) stop(sig os.Signal, limit time.Duration) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(limit):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // for the stacks
		<-s.ended
		return fmt.Errorf("the server runs %v after %v\n%s", limit, sig, s.log())
	}
	if s.err != nil {
		return fmt.Errorf("the server ends with %w\n%s", s.err, s.log())
	}
	return nil
}

// patience returns the time after which a server should have ended a request, or answers others
// after an attack: 12 s, multiplied by the number of tasks for each processor.
func patience() time.Duration {
	const alone = 12 * time.Second
	data, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(data), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return alone
	}
	return time.Duration(float64(alone) * max(load/float64(runtime.NumCPU()), 1))
}

// check returns an error if the server has ended, uses too much memory, or does not answer.
func (s *server) check() error {
	select {
	case <-s.ended:
		return fmt.Errorf("the server has ended: %v\n%s", s.err, s.log())
	default:
	}
	p := peak(s.cmd.Process.Pid)
	s.most = max(s.most, p)
	if p > totalMemory+overhead {
		return fmt.Errorf("the server used %d MiB, with %d MiB for all requests", p>>20, totalMemory>>20)
	}
	var err error
	for end := time.Now().Add(patience()); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = s.infer(context.Background()); err == nil {
			return nil
		}
	}
	return fmt.Errorf("a good request fails after the attack: %w", err)
}

const goodRequest = `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`

// infer sends a good request.
func (s *server) infer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c := s.client(false)
	defer c.CloseIdleConnections()
	code, body, err := send(ctx, c, "http://"+s.http+"/v2/models/m/infer", strings.NewReader(goodRequest),
		map[string]string{"Authorization": "Bearer " + token})
	if err == nil && (code != 200 || !strings.Contains(body, "[-1,-2]")) {
		err = fmt.Errorf("%d %.200s", code, body)
	}
	return err
}

// client returns a client with connections of its own.
func (s *server) client(grpc bool) *http.Client {
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(!grpc)
	t.Protocols.SetUnencryptedHTTP2(grpc)
	return &http.Client{Transport: t}
}

// send sends a request and returns the status and the text of the response. The status of gRPC
// follows the text.
func send(ctx context.Context, c *http.Client, url string, body io.Reader, headers map[string]string) (
	int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, "", err
	}
	for k, v := range headers {
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	w, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	for _, h := range []http.Header{w.Header, w.Trailer} {
		if code := h.Get("grpc-status"); code != "" {
			text = append(text, "grpc-status "+code...)
		}
	}
	return w.StatusCode, string(text), err
}
