package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// restBodies lists a request of each endpoint of REST that decodes a body.
var restBodies = map[string]string{
	"/v2/models/m/infer": `{"id":"a","parameters":{"priority":1},"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32",` +
		`"parameters":{"a":1},"data":[[1,2]]}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`,
	"/v2/models/s/infer":                         `{"inputs":[{"name":"x","shape":[1,2],"datatype":"BYTES","data":["a","b"]}]}`,
	"/v2/repository/index":                       `{"ready":true}`,
	"/v2/repository/models/m/load":               `{"parameters":{"config":"{}","file:1/model.onnx":"AAAA"}}`,
	"/v2/repository/models/m/unload":             `{"parameters":{"unload_dependents":true}}`,
	"/v2/logging":                                `{"log_verbose_level":1,"log_format":"default"}`,
	"/v2/trace/setting":                          `{"trace_level":["TIMESTAMPS"],"trace_rate":"1000"}`,
	"/v2/models/m/trace/setting":                 `{"trace_level":["TIMESTAMPS"]}`,
	"/v2/systemsharedmemory/region/r/register":   `{"key":"/k","offset":0,"byte_size":1}`,
	"/v2/systemsharedmemory/region/r/unregister": `{}`,
	"/v2/cudasharedmemory/region/r/register":     `{"raw_handle":{"b64":"AAAA"},"device_id":0,"byte_size":1}`,
	"/v2/models/m/versions/1/infer":              goodRequest,
}

// grpcMethods lists the calls of the protocol.
var grpcMethods = []string{"ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer",
	"ModelStreamInfer", "ModelConfig", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad",
	"RepositoryModelUnload", "SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister",
	"CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister", "TraceSetting", "LogSettings"}

func decodeTargets(*attack) []string {
	return slices.Concat(slices.Sorted(maps.Keys(restBodies)), grpcMethods)
}

// flood writes a JSON value with one part replaced by one that is repeated to n bytes.
type flood struct {
	r     *rand.Rand
	n     int
	at    int // number of the part
	parts int
	out   bytes.Buffer
}

func (f *flood) value(v any) {
	f.parts++
	if f.parts-1 == f.at {
		f.repeat(v)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		f.out.WriteByte('{')
		keys := slices.Sorted(maps.Keys(v))
		f.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, k := range keys {
			if i > 0 {
				f.out.WriteByte(',')
			}
			f.text(k)
			f.out.WriteByte(':')
			f.value(v[k])
		}
		f.out.WriteByte('}')
	case []any:
		f.out.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				f.out.WriteByte(',')
			}
			f.value(e)
		}
		f.out.WriteByte(']')
	default:
		f.text(v)
	}
}

func (f *flood) text(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	f.out.Write(b)
}

// repeat writes about n bytes instead of v.
func (f *flood) repeat(v any) {
	own, _ := json.Marshal(v)
	units := []string{"{}", "[]", "null", "0", "1e9", `""`, `"a"`, "true", `{"a":{}}`, "[[]]", string(own)}
	unit := units[f.r.IntN(len(units))]
	switch f.r.IntN(7) {
	case 0, 1:
		f.out.WriteString("[" + strings.Repeat(unit+",", f.n/(len(unit)+1)) + unit + "]")
	case 2:
		f.out.WriteByte('{')
		for i := 0; f.out.Len() < f.n; i++ {
			f.out.WriteString(`"` + strconv.Itoa(i) + `":` + unit + `,`)
		}
		f.out.WriteString(`"":0}`)
	case 3:
		f.out.WriteString("{" + strings.Repeat(`"a":`+unit+",", f.n/(len(unit)+5)) + `"b":` + unit + "}")
	case 4:
		c := []string{"a", "<", `\u0000`, "é", `\"`, "\xff", "/"}[f.r.IntN(7)]
		f.out.WriteString(`"` + strings.Repeat(c, f.n/len(c)) + `"`)
	case 5:
		f.out.WriteString("1" + strings.Repeat(strconv.Itoa(f.r.IntN(10)), f.n))
	default:
		open, end := "[", "]"
		if f.r.IntN(2) == 0 {
			open, end = `{"a":`, "}"
		}
		n := f.n / (len(open) + 1)
		f.out.WriteString(strings.Repeat(open, n) + unit + strings.Repeat(end, n))
	}
}

// jsonFlood returns a request like text with about n bytes.
func jsonFlood(r *rand.Rand, text string, n int) []byte {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	count := &flood{r: r, at: -1}
	count.value(v)
	f := &flood{r: r, n: n, at: r.IntN(count.parts)}
	f.value(v)
	return f.out.Bytes()
}

// messageFlood returns a message of protobuf with about n bytes: a field that is repeated, in up to
// three others.
func messageFlood(r *rand.Rand, n int) []byte {
	var unit []byte
	switch tag := protowire.Number(1 + r.IntN(8)); r.IntN(5) {
	case 0:
		unit = protowire.AppendVarint(protowire.AppendTag(unit, tag, protowire.VarintType), uint64(r.IntN(2)))
	case 1:
		unit = protowire.AppendBytes(protowire.AppendTag(unit, tag, protowire.BytesType), []byte("\x0a\x00"))
	case 2:
		unit = protowire.AppendBytes(protowire.AppendTag(unit, tag, protowire.BytesType), make([]byte, n))
	default:
		unit = protowire.AppendBytes(protowire.AppendTag(unit, tag, protowire.BytesType), nil)
	}
	b := bytes.Repeat(unit, max(1, n/len(unit)))
	for range r.IntN(4) {
		b = protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(1+r.IntN(8)), protowire.BytesType), b)
	}
	if r.IntN(2) == 0 {
		b = append(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "m"), b...)
	}
	return b
}

func zipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(b)
	_ = w.Close()
	return z.Bytes()
}

// tryDecode sends requests to an endpoint whose decoded form is much larger than their bytes, up to
// eight at a time. The server refuses or answers them within its memory; without a token it reads
// nothing.
func tryDecode(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	s, err := a.shared()
	if err != nil {
		return nil, err
	}
	zip, known := r.IntN(2) == 0, r.IntN(4) > 0
	n, valid := 1<<(10+r.IntN(17)), r.IntN(2) == 0
	if valid {
		n = max(n, 1<<(20+r.IntN(5)))
	}
	url, headers := "http://"+s.http+target, map[string]string{"Content-Type": "application/json"}
	var body []byte
	example, rest := restBodies[target]
	if rest {
		if body = jsonFlood(r, example, n); zip {
			body = zipped(body)
			headers["Content-Encoding"] = "gzip"
		}
	} else {
		url = "http://" + s.grpc + "/inference.GRPCInferenceService/" + target
		headers = map[string]string{"Content-Type": "application/grpc", "TE": "trailers"}
		for range 1 + r.IntN(3) {
			var m []byte
			if valid {
				m = requestFlood(r, target, n)
			} else {
				m = messageFlood(r, n)
			}
			if zip {
				m, headers["grpc-encoding"] = zipped(m), "gzip"
			}
			body = framed(body, m, zip)
			if target != "ModelStreamInfer" {
				break
			}
		}
	}
	if known {
		headers["Authorization"] = "Bearer " + token
	}
	probe := target == "ServerLive" || target == "ServerReady" // for which no token is needed
	pid := s.cmd.Process.Pid
	resetPeak(pid)
	before := resident(pid)
	start := time.Now()
	var wait sync.WaitGroup
	var mu sync.Mutex
	clients := 1 + r.IntN(8)
	for range clients {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			c := s.client(!rest)
			defer c.CloseIdleConnections()
			code, text, e := send(ctx, c, url, bytes.NewReader(body), headers)
			if e != nil && ctx.Err() == nil {
				return // the server may close the connection
			}
			mu.Lock()
			defer mu.Unlock()
			switch refused := code == 401 || strings.HasSuffix(text, "grpc-status 16"); {
			case e != nil:
				err = fmt.Errorf("no answer within a minute: %w", e)
			case strings.Contains(text, "files in a request are not supported"): // with Triton's status
			case code == 500 || strings.HasSuffix(text, "grpc-status 13") || strings.HasSuffix(text, "grpc-status 2"):
				err = fmt.Errorf("an internal error: %d %.300s", code, text)
			case code >= 400 && len(text) > 4096:
				err = fmt.Errorf("the error has %d bytes: %.200s", len(text), text)
			case !known && !refused && code != 404 && !probe:
				err = fmt.Errorf("a request without token is answered: %d %.200s", code, text)
			}
		})
	}
	wait.Wait()
	grown := peak(pid) - before
	if *verbose {
		fmt.Printf("%s: %d × %d bytes (gzip %v, token %v) take %d MiB, %v\n", target, clients, len(body), zip, known,
			grown>>20, time.Since(start).Round(time.Millisecond))
	}
	if e := s.check(); e != nil {
		a.forget(s)
		return nil, fmt.Errorf("%d × %d bytes: %w", clients, len(body), e)
	}
	if !known && !probe && grown > 32<<20 && err == nil {
		err = fmt.Errorf("%d × %d bytes without token take %d MiB", clients, len(body), grown>>20)
	}
	if err != nil {
		return nil, err
	}
	return &attempt{}, nil
}
