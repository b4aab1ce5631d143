package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// load is a server with clients whose results are compared.
type load struct {
	a      *attack
	server atomic.Pointer[server]
	epoch  atomic.Int64 // odd while the server is killed and started again
	absent atomic.Bool  // the model is unloaded now and then
	good   atomic.Int64 // right results
	end    time.Time

	mu     sync.Mutex
	failed []error
}

// disturbances act on a server until the end of the load.
var disturbances = map[string]func(l *load, r *rand.Rand) error{
	"reloads":       (*load).reload,
	"cancellations": (*load).cancel,
	"slow clients":  (*load).slow,
	"restarts":      (*load).restart,
	"closed log":    func(l *load, _ *rand.Rand) error { return l.server.Load().logs.Close() },
}

const (
	everything = "everything"
	fullLog    = "full log"
	fullTraces = "full traces"
)

func loadTargets(*attack) []string {
	return append(slices.Sorted(maps.Keys(disturbances)), everything, fullLog, fullTraces)
}

// tryLoad sends requests for two seconds, with the disturbance named by the target. Every request
// is answered with the right numbers, except those of a server that is killed and of a model that
// is not loaded. Afterwards the server ends by SIGINT with success.
func tryLoad(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	l := &load{a: a, end: time.Now().Add(2 * time.Second)}
	s, err := l.start(target)
	if err != nil {
		return nil, err
	}
	l.server.Store(s)
	defer func() { l.server.Load().kill() }()
	var wait sync.WaitGroup
	for name, disturb := range disturbances {
		if name == target || target == everything {
			r := rand.New(rand.NewPCG(r.Uint64(), 1))
			wait.Go(func() { l.fail(disturb(l, r)) })
		}
	}
	for range 1 + r.IntN(16) {
		r := rand.New(rand.NewPCG(r.Uint64(), 2))
		wait.Go(func() {
			c := [2]*http.Client{s.client(false), s.client(true)}
			for time.Now().Before(l.end) {
				l.judge(func(s *server) error {
					i := r.IntN(2)
					return l.compare(context.Background(), s, c[i], r, i == 1)
				})
			}
		})
	}
	wait.Wait()
	s = l.server.Load()
	l.fail(s.check())
	l.fail(s.stop(os.Interrupt, 40*time.Second))
	if log := s.log(); strings.Contains(log, "panic") {
		l.fail(fmt.Errorf("the server writes\n%s", log))
	}
	if *verbose {
		fmt.Printf("%s: %d results, at most %d MiB\n", target, l.good.Load(), s.most>>20)
	}
	if l.good.Load() == 0 {
		l.fail(errors.New("no request is answered"))
	}
	return &attempt{}, errors.Join(l.failed...)
}

// start starts a server whose log or traces cannot be written, if the target says so.
func (l *load) start(target string) (*server, error) {
	switch target {
	case fullLog:
		var addresses [2]string
		for i := range addresses {
			c, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			addresses[i] = c.Addr().String()
			c.Close()
		}
		full := *l.a
		full.command = filepath.Join(l.a.scratch, "full")
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" 2>/dev/full\n", l.a.command)
		if err := os.WriteFile(full.command, []byte(script), 0o700); err != nil {
			return nil, err
		}
		s, err := full.start(false, "--http", addresses[0], "--grpc", addresses[1])
		if err == nil {
			s.http, s.grpc = addresses[0], addresses[1]
			err = s.check()
		}
		return s, err
	case fullTraces:
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInsufficientStorage)
		}))
		time.AfterFunc(time.Until(l.end), collector.Close)
		return l.a.start(true, "--otlp-endpoint", collector.URL)
	}
	return l.a.start(true)
}

// fail records a finding.
func (l *load) fail(err error) {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.failed) < 5 {
			l.failed = append(l.failed, err)
		}
	}
}

// judge sends a request and records its failure, unless the server is killed meanwhile.
func (l *load) judge(request func(s *server) error) {
	before := l.epoch.Load()
	err := request(l.server.Load())
	if err != nil && (before%2 == 1 || l.epoch.Load() != before) {
		time.Sleep(time.Millisecond)
		return
	}
	l.fail(err)
}

var errWrong = errors.New("wrong result")

// compare sends a request and compares the results.
func (l *load) compare(ctx context.Context, s *server, c *http.Client, r *rand.Rand, grpc bool) error {
	x := make([]float32, 2*(1+r.IntN(8)))
	for i := range x {
		x[i] = float32(r.IntN(1000))
	}
	var y []float32
	url, body, headers := "http://"+s.http+"/v2/models/m/infer", jsonOf(x), map[string]string{}
	if grpc {
		url, body = "http://"+s.grpc+"/inference.GRPCInferenceService/ModelInfer", messageOf(x)
		headers = map[string]string{"Content-Type": "application/grpc", "TE": "trailers"}
	}
	code, text, err := send(ctx, c, url, bytes.NewReader(body), headers)
	text, ended := strings.CutSuffix(text, "grpc-status 0")
	switch {
	case err != nil:
		return err
	case code != 200 || grpc && !ended:
		if l.absent.Load() && (strings.Contains(text, "grpc-status") || code/100 == 4 || code == 503) {
			return nil
		}
		return fmt.Errorf("%d %.300s", code, text)
	case grpc:
		y = floatsOf(text)
	default:
		var m struct{ Outputs []struct{ Data []float32 } }
		if err := json.Unmarshal([]byte(text), &m); err != nil || len(m.Outputs) != 1 {
			return fmt.Errorf("%w: %.300s: %w", errWrong, text, err)
		}
		y = m.Outputs[0].Data
	}
	if !slices.EqualFunc(x, y, func(a, b float32) bool { return a == -b }) {
		return fmt.Errorf("%w: Neg of %v is %v", errWrong, x, y)
	}
	l.good.Add(1)
	return nil
}

func jsonOf(x []float32) []byte {
	data, _ := json.Marshal(x) // of finite numbers
	return fmt.Appendf(nil, `{"inputs":[{"name":"x","shape":[%d,2],"datatype":"FP32","data":%s}]}`, len(x)/2, data)
}

// messageOf returns a ModelInferRequest of m with the prefix of gRPC.
func messageOf(x []float32) []byte { return requestOf("m", []byte{byte(len(x) / 2), 2}, x) }

// requestOf returns a ModelInferRequest with the prefix of gRPC.
func requestOf(model string, shape []byte, x []float32) []byte {
	text := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	input := text(text(text(nil, 1, "x"), 2, "FP32"), 3, string(shape))
	var raw []byte
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	m := text(text(text(nil, 1, model), 5, string(input)), 7, string(raw))
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// floatsOf returns the raw outputs of a ModelInferResponse with the prefix of gRPC.
func floatsOf(text string) (y []float32) {
	for b := []byte(text)[min(5, len(text)):]; len(b) > 0; {
		num, kind, n := protowire.ConsumeTag(b)
		k := protowire.ConsumeFieldValue(num, kind, b[max(0, n):])
		if n < 0 || k < 0 {
			return nil
		}
		if num == 6 {
			raw, _ := protowire.ConsumeBytes(b[n:])
			for ; len(raw) >= 4; raw = raw[4:] {
				y = append(y, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		}
		b = b[n+k:]
	}
	return y
}

// reload unloads and loads the model.
func (l *load) reload(r *rand.Rand) error {
	l.absent.Store(true)
	c := l.server.Load().client(false)
	for more := true; more; {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		more = time.Now().Before(l.end)
		for _, what := range []string{"unload", "load"} {
			l.judge(func(s *server) error {
				code, text, err := send(context.Background(), c,
					"http://"+s.http+"/v2/repository/models/m/"+what, nil, nil)
				if err == nil && code != 200 {
					err = fmt.Errorf("%s: %d %.300s", what, code, text)
				}
				return err
			})
		}
	}
	return nil
}

// cancel sends requests that end soon after they begin.
func (l *load) cancel(r *rand.Rand) error {
	s := l.server.Load()
	c := [2]*http.Client{s.client(false), s.client(true)}
	for time.Now().Before(l.end) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3000))*time.Microsecond)
		i := r.IntN(2)
		if err := l.compare(ctx, l.server.Load(), c[i], r, i == 1); errors.Is(err, errWrong) {
			l.fail(err)
		}
		cancel()
	}
	return nil
}

// slow sends requests in pieces.
func (l *load) slow(r *rand.Rand) error {
	for time.Now().Before(l.end) {
		l.judge(func(s *server) error {
			c := s.client(false)
			defer c.CloseIdleConnections()
			body, writer := io.Pipe()
			go func() {
				b := []byte(goodRequest)
				for len(b) > 0 {
					n := 1 + r.IntN(len(b))
					_, _ = writer.Write(b[:n]) // it ends with the request
					b = b[n:]
					time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
				}
				writer.Close()
			}()
			code, text, err := send(context.Background(), c, "http://"+s.http+"/v2/models/m/infer", body, nil)
			body.Close()
			if err == nil && (code != 200 || !strings.Contains(text, "[-1,-2]")) && !l.absent.Load() {
				err = fmt.Errorf("slow request: %d %.300s", code, text)
			}
			return err
		})
	}
	return nil
}

// restart kills the server and starts it again.
func (l *load) restart(r *rand.Rand) error {
	for {
		time.Sleep(time.Duration(300+r.IntN(500)) * time.Millisecond)
		if !time.Now().Before(l.end) {
			return nil
		}
		l.epoch.Add(1)
		l.server.Load().kill()
		s, err := l.a.start(true)
		if err != nil {
			return err
		}
		l.server.Store(s)
		l.epoch.Add(1)
	}
}
