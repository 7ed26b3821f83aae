// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/digitalocean/go-qemu/qmp"
)

// greeting is a QEMU's, with what it answers to the first command.
const greeting = `{"QMP":{"version":{"qemu":{"micro":0,"minor":0,"major":11}}}}` + "\n" +
	`{"return":{}}` + "\n"

// said are the lines of a QEMU to which a device is attached, one for each command, and events.
func said(lines ...string) []byte { return []byte(greeting + strings.Join(lines, "\n")) }

// FuzzMonitor: whatever a QEMU says, Attach ends once it says no more. It succeeds only if QEMU has
// said that the device is plugged in, and neither its error nor what it tells the user has
// characters that could command a terminal.
func FuzzMonitor(f *testing.F) {
	const none, shared = `{"return":[]}`, `{"return":[{"share":true}]}`
	f.Add([]byte{})
	f.Add([]byte(`{"QMP":`))
	f.Add([]byte("{\"QMP\":{}}\n{\n{")) // the answer to the first command has no end
	f.Add(said(none, shared, none, `{"return":{}}`, none, none, none, none, none, none,
		`{"return":{}}`))
	f.Add(said(none, shared, none, `{"error":{"class":"GenericError"}}`))
	f.Add(said(none, shared, none, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`, `{}`))
	f.Add(said(none, shared, none, `{"error":{"class":"x","desc":"\u001b[2Jno"}}`))
	f.Add(said(`{"return":[{"name":"\u001b]0;x\u0007","type":"child<pcie-root-port>"}]}`, none,
		shared, none, `{"return":{}}`, none, none, none, none, `{"error":{"desc":"no"}}`))
	f.Add(said(none, shared, none, `{"return":{}}`, `{"return":[{"label":"a"}]}`,
		`{"return":[{"name":"\u001b[1m","type":"child<vhost-user-fs-pci>"}]}`,
		`{"return":"paracuda"}`, `{"return":"a"}`, none))
	f.Add(said(none, shared, none, `{"return":{}}`, none, none, none,
		`{"return":[{"name":"paracuda0"}]}`, `{"return":"c"}`,
		`{"event":"DEVICE_DELETED","data":{"device":"paracuda0"}}`, `{"return":{}}`, none, none,
		none, `{"return":{}}`))
	f.Add(said(`{"event":5,"return":[]}`, `null`, `[]`, `"x"`, none))
	defer func(a, g time.Duration, s func()) {
		unplugAgain, greetTime, settle = a, g, s
	}(unplugAgain, greetTime, settle)
	unplugAgain, greetTime, settle = 5*time.Millisecond, 200*time.Millisecond, func() {}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, speech []byte) {
		q := newLiar(t, filepath.Join(folder, "qmp"), speech)
		var told []string
		err := Attach(context.Background(), QMP(q.socket), Device{Socket: "/run/d"},
			Options{Say: func(text string) { told = append(told, text) }})
		if plugged := <-q.plugged; err == nil && !plugged {
			t.Error("it is attached, and QEMU hasn't said so")
		}
		if err != nil {
			told = append(told, err.Error())
		}
		for _, text := range told {
			if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
				t.Errorf("it says %q", text)
			}
		}
	})
}

// liar is a QEMU that says what it was given, as far as it is asked.
type liar struct {
	socket  string
	plugged chan bool // at its end: whether it has said that a device is plugged in
}

func newLiar(t *testing.T, socket string, speech []byte) *liar {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	q := &liar{socket, make(chan bool, 1)}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			q.plugged <- false
			return
		}
		defer c.Close()
		q.plugged <- speak(c, speech)
	}()
	return q
}

// speak says the greeting, and then a line for each command, with the events before it.
func speak(c net.Conn, speech []byte) (plugged bool) {
	lines := bytes.SplitAfter(speech, []byte("\n"))
	for _, line := range lines[:min(2, len(lines))] {
		_, _ = c.Write(line)
	}
	lines = lines[min(2, len(lines)):]
	commands := json.NewDecoder(bufio.NewReader(c))
	for first := true; len(lines) > 0; first = false {
		var asked fakeCommand
		if commands.Decode(&asked) != nil {
			return plugged
		}
		if first { // qmp_capabilities, which is answered
			continue
		}
		n := 1 + slices.IndexFunc(lines, isReply)
		if n == 0 {
			n = len(lines)
		}
		for _, line := range lines[:n] {
			_, _ = c.Write(line)
		}
		var reply struct {
			Return json.RawMessage
			Error  struct{ Desc string }
		}
		plugged = plugged || asked.Execute == "device_add" &&
			json.Unmarshal(lines[n-1], &reply) == nil && reply.Return != nil &&
			reply.Error.Desc == ""
		lines = lines[n:]
	}
	return plugged
}

// isReply says whether go-qemu takes a line for a reply: it is no event, and nothing that go-qemu
// skips.
func isReply(line []byte) bool {
	var e qmp.Event
	return json.Unmarshal(line, &e) == nil && e.Event == ""
}
