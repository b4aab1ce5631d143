// Package browser drives headless Chromium in tests, over the pipe of the Chrome DevTools Protocol
// (https://chromedevtools.github.io/devtools-protocol).
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Page is a page of a browser.
type Page struct {
	w       *os.File
	session string

	mu      sync.Mutex
	next    int
	replies map[int]chan reply
	log     []string
	ended   error
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Open starts Chromium with an empty page, and ends it with the test. The test is skipped unless
// ONWARD_BROWSER is set, as make test-browser does: a browser takes seconds to start.
func Open(t *testing.T) *Page {
	t.Helper()
	exe := os.Getenv("ONWARD_BROWSER")
	if exe == "" {
		t.Skip("ONWARD_BROWSER is not set, so the page is not tested in a browser; make test-browser does")
	}
	toR, toW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromR, fromW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Without sandbox, because tests may run as root and in containers; pages are
	// those of the test.
	cmd := exec.CommandContext(t.Context(), exe, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--remote-debugging-pipe",
		"--user-data-dir="+t.TempDir(), "--no-first-run", "--disable-background-networking",
		"--force-prefers-reduced-motion")
	cmd.ExtraFiles = []*os.File{toR, fromW} // descriptors 3 and 4
	var logs bytes.Buffer
	cmd.Stderr = &logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toR.Close()
	fromW.Close()
	p := &Page{w: toW, replies: map[int]chan reply{}}
	done := make(chan struct{})
	go func() { defer close(done); p.read(fromR) }()
	t.Cleanup(func() {
		p.call("", "Browser.close", nil, nil)
		toW.Close()
		<-done
		cmd.Wait()
		fromR.Close()
		if t.Failed() {
			t.Logf("%v\n%s", p.Log(), logs.Bytes())
		}
	})
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	err = p.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	if err == nil {
		err = p.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true},
			&attached)
	}
	p.session = attached.SessionID
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Log.enable", "Network.enable"} {
		if err == nil {
			err = p.Call(domain, nil, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read passes on what the browser sends until it ends.
func (p *Page) read(f *os.File) {
	r := bufio.NewReader(f)
	for {
		b, err := r.ReadBytes(0)
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended = fmt.Errorf("the browser ended: %w", err)
			for _, c := range p.replies {
				close(c)
			}
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(b[:len(b)-1], &m) != nil {
			continue
		}
		p.mu.Lock()
		if c := p.replies[m.ID]; m.ID != 0 && c != nil {
			delete(p.replies, m.ID)
			c <- m.reply
		}
		switch m.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded", "Network.requestWillBeSent":
			p.log = append(p.log, m.Method+" "+string(m.Params))
		}
		p.mu.Unlock()
	}
}

// Log returns the requests, exceptions and log entries of the page, each with the
// name of its event.
func (p *Page) Log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.log...)
}

// Call calls a method of the protocol for the page.
func (p *Page) Call(method string, params map[string]any, into any) error {
	return p.call(p.session, method, params, into)
}

func (p *Page) call(session, method string, params map[string]any, into any) error {
	m := map[string]any{"method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	c := make(chan reply, 1)
	p.mu.Lock()
	if p.ended != nil {
		p.mu.Unlock()
		return p.ended
	}
	p.next++
	m["id"] = p.next
	p.replies[p.next] = c
	p.mu.Unlock()
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := p.w.Write(append(b, 0)); err != nil {
		return err
	}
	select {
	case r, ok := <-c:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser ended", method)
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case into != nil:
			return json.Unmarshal(r.Result, into)
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s: no answer within a minute", method)
	}
}

// Go loads a page.
func (p *Page) Go(url string) error {
	return p.Call("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval evaluates a JavaScript expression, whose value has a JSON form, and awaits promises.
func (p *Page) Eval(expression string, into any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	err := p.Call("Runtime.evaluate",
		map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	switch {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return errors.New(r.ExceptionDetails.Exception.Description)
	case into == nil:
		return nil
	case r.Result.Value == nil:
		return fmt.Errorf("%s has no value", expression)
	}
	return json.Unmarshal(r.Result.Value, into)
}

// Wait waits until an expression is true. It fails after a minute.
func (p *Page) Wait(t *testing.T, expression string) {
	t.Helper()
	for range 600 {
		ok := false
		if p.Eval("!!("+expression+")", &ok) == nil && ok {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	body := ""
	p.Eval("document.body && document.body.innerText", &body)
	t.Fatalf("%s did not become true. The page:\n%.2000s", expression, body)
}

// Press presses and releases a key: a character, or a name such as "Tab", "Enter" or "ArrowDown".
func (p *Page) Press(key string) error {
	params := map[string]any{"type": "keyDown", "key": key}
	switch key {
	case "Enter":
		params["windowsVirtualKeyCode"], params["text"] = 13, "\r"
	case "Tab":
		params["windowsVirtualKeyCode"] = 9
	default:
		if len(key) == 1 {
			params["text"] = key
		}
	}
	if err := p.Call("Input.dispatchKeyEvent", params, nil); err != nil {
		return err
	}
	params["type"] = "keyUp"
	delete(params, "text")
	return p.Call("Input.dispatchKeyEvent", params, nil)
}
