//go:build !core

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
)

// startServe runs onward serve with free ports and returns their addresses by protocol. stop sends
// the signal, and code receives the exit code.
func startServe(t *testing.T, args ...string) (addresses map[string]string, stop func(), code chan int) {
	t.Helper()
	return startServeLogs(t, &records{c: make(chan map[string]any, 1000)}, args...)
}

func startServeLogs(t *testing.T, logs *records, args ...string) (addresses map[string]string, stop func(),
	code chan int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	code = make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"serve", "--http", ":0", "--grpc", ":0", "--metrics", ":0"}, args...),
			io.Discard, logs)
	}()
	addresses = map[string]string{}
	for len(addresses) < 3 {
		select {
		case m := <-logs.c:
			if m["msg"] == "listening" {
				addresses[m["protocol"].(string)] = m["address"].(string)
			} else if m["text"] != nil {
				t.Log(m["text"])
			}
		case c := <-code:
			t.Fatalf("exit code %d before the servers listen", c)
		}
	}
	return addresses, stop, code
}

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	a.cert, a.key = a.sign(t,
		&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign returns a certificate and its key, signed by the authority, or by itself if the authority
// has no certificate yet.
func (a *authority) sign(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) file(t *testing.T) string {
	return writeFile(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), nil)
}

// pair returns the files of a certificate and its key.
func (a *authority) pair(t *testing.T, usage x509.ExtKeyUsage) (certFile, keyFile string, c tls.Certificate) {
	t.Helper()
	cert, key := a.sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if c, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", certPEM, nil), writeFile(t, "key.pem", keyPEM, nil), c
}

// TestClientCertificates checks that REST and gRPC take clients with a certificate of the
// authority, and no others.
func TestClientCertificates(t *testing.T) {
	ca := newAuthority(t)
	certFile, keyFile, _ := ca.pair(t, x509.ExtKeyUsageServerAuth)
	addresses, stop, code := startServe(t, "mul_1.onnx", "--tls-cert", certFile, "--tls-key", keyFile,
		"--tls-client-ca", ca.file(t))
	_, _, own := ca.pair(t, x509.ExtKeyUsageClientAuth)
	_, _, foreign := newAuthority(t).pair(t, x509.ExtKeyUsageClientAuth)
	_, _, wrongUse := ca.pair(t, x509.ExtKeyUsageServerAuth)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	for _, c := range []struct {
		name  string
		certs []tls.Certificate
		max   uint16
		ok    bool
	}{
		{"a certificate of the authority", []tls.Certificate{own}, 0, true},
		{"no certificate", nil, 0, false},
		{"a certificate of another authority", []tls.Certificate{foreign}, 0, false},
		{"a certificate for servers", []tls.Certificate{wrongUse}, 0, false},
		{"TLS 1.1", []tls.Certificate{own}, tls.VersionTLS11, false},
	} {
		config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: c.max}
		if len(c.certs) > 0 { // also if the server does not ask for one of its authority
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &c.certs[0], nil
			}
		}
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone()}}
		r, err := web.Get("https://" + addresses["http"] + "/v2/health/ready")
		if err == nil {
			r.Body.Close()
		}
		web.CloseIdleConnections()
		if ok := err == nil && r.StatusCode == 200; ok != c.ok {
			t.Errorf("REST with %s: %v", c.name, err)
		}
		conn, err := grpc.NewClient(addresses["grpc"], grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = inference.NewGRPCInferenceServiceClient(conn).ServerReady(t.Context(), &inference.ServerReadyRequest{})
		if (err == nil) != c.ok {
			t.Errorf("gRPC with %s: %v", c.name, err)
		}
		conn.Close()
	}
	if r, err := http.Get("http://" + addresses["http"] + "/v2/health/ready"); err == nil {
		r.Body.Close()
		if r.StatusCode == 200 {
			t.Error("REST answers without TLS")
		}
	}
	stop()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want 0", c)
	}
}

// inProgress waits until the server has n inference requests in progress.
func inProgress(t *testing.T, metrics string, n int) {
	t.Helper()
	want := fmt.Sprintf("onward_requests_in_progress %d", n)
	for t.Context().Err() == nil {
		r, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			found = found || lines.Text() == want
		}
		r.Body.Close()
		if found {
			return
		}
	}
}

// TestShutdownUnderLoad sends the signal while requests wait for their batch. All are answered, and
// later ones are refused.
func TestShutdownUnderLoad(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2).Node("Identity", []string{"x"}, []string{"y"})
	data, err := b.Must().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	if err := os.MkdirAll(filepath.Join(repo, "m", "1"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"1/model.onnx": string(data),
		"config.pbtxt": "max_batch_size: 64 dynamic_batching { max_queue_delay_microseconds: 1000000 }"} {
		if err := os.WriteFile(filepath.Join(repo, "m", name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	addresses, stop, code := startServe(t, repo)
	conn, err := grpc.NewClient(addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := inference.NewGRPCInferenceServiceClient(conn)
	message := &inference.ModelInferRequest{ModelName: "m",
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 2}}}, RawInputContents: [][]byte{[]byte("12345678")}}
	post := func() error {
		r, err := http.Post("http://"+addresses["http"]+"/v2/models/m/infer", "application/json", strings.NewReader(`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err == nil && (r.StatusCode != 200 || !strings.Contains(string(body), "[1,2]")) {
			err = fmt.Errorf("%s %s", r.Status, body)
		}
		return err
	}
	const each = 10
	st, err := client.ModelStreamInfer(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range each {
		wait.Go(func() {
			if err := post(); err != nil {
				t.Errorf("REST: %v", err)
			}
		})
		wait.Go(func() {
			if _, err := client.ModelInfer(context.Background(), message); err != nil {
				t.Errorf("gRPC: %v", err)
			}
		})
		if err := st.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	inProgress(t, addresses["metrics"], 3*each)
	stop()
	for i := range each {
		if m, err := st.Recv(); err != nil || m.ErrorMessage != "" {
			t.Errorf("answer %d of the stream: %v %v", i, m, err)
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Error(err)
	}
	wait.Wait()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want 0", c)
	}
	if post() == nil {
		t.Error("a request after the end is answered")
	}
}

// TestDrainIsOne holds the drain of REST by an unfinished request. gRPC
// takes no requests meanwhile.
func TestDrainIsOne(t *testing.T) {
	addresses, stop, code := startServe(t, "mul_1.onnx", "--drain", "1m")
	held, err := net.Dial("tcp", addresses["http"])
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := io.WriteString(held,
		"POST /v2/models/mul_1/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	inProgress(t, addresses["metrics"], 1)
	// A connection from before the signal takes no new calls either.
	conn, err := grpc.NewClient(addresses["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := inference.NewGRPCInferenceServiceClient(conn)
	if _, err := client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Fatal(err)
	}
	stop()
	for err == nil { // until the server has seen the signal
		_, err = client.ServerLive(t.Context(), &inference.ServerLiveRequest{})
	}
	select {
	case <-code:
		t.Error("the server ends before its drain; gRPC may have taken requests until then")
	default:
	}
	if c, err := net.Dial("tcp", addresses["grpc"]); err == nil {
		c.Close()
		t.Error("gRPC takes connections while REST drains")
	}
	held.Close()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want 0", c)
	}
}

// TestSpansShareTheDrain checks that a collector that does not answer extends the shutdown by no
// second drain.
func TestSpansShareTheDrain(t *testing.T) {
	now := time.Now()
	o := serveOptions{drain: time.Minute, drained: now}
	if end := o.spansEnd(now.Add(time.Minute)); end != now.Add(spanTime) {
		t.Errorf("spans are exported until %v after --drain, want %v", end.Sub(now), spanTime)
	}
}

// TestServersListenBeforeTheyAnswer checks that gRPC and metrics take connections when REST has
// answered that the server is ready.
func TestServersListenBeforeTheyAnswer(t *testing.T) {
	for range 5 {
		var addresses [3]string
		var taken [3]net.Listener
		for i := range addresses {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addresses[i], taken[i] = l.Addr().String(), l
		}
		for _, l := range taken {
			l.Close()
		}
		ctx, stop := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, []string{"serve", "mul_1.onnx", "--http", addresses[0], "--grpc", addresses[1],
				"--metrics", addresses[2]}, io.Discard, io.Discard)
		}()
		for {
			if r, err := http.Get("http://" + addresses[0] + "/v2/health/ready"); err == nil {
				r.Body.Close()
				break
			}
			select {
			case c := <-code:
				t.Fatalf("exit code %d before the server answers", c)
			case <-time.After(time.Millisecond):
			}
		}
		for _, a := range addresses[1:] {
			c, err := net.Dial("tcp", a)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		stop()
		if c := <-code; c != exitOK {
			t.Errorf("exit code %d, want 0", c)
		}
	}
}
