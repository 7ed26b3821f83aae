// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// fakeInit is the guest's end of a link, played by a test.
type fakeInit struct {
	*conn
	t *testing.T
}

// play runs a session against the guest that f plays.
func play(t *testing.T, c Config, f func(g fakeInit)) (int, error) {
	t.Helper()
	host, guest := net.Pipe()
	s, err := newSession(host, &c)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer guest.Close()
		f(fakeInit{&conn{stream: guest}, t})
	}()
	code, err := s.run()
	host.Close()
	<-done
	return code, err
}

func (g fakeInit) hello(version uint32) {
	g.send(frameHello, append(binary.LittleEndian.AppendUint32(nil, version), "7.2.0"...))
}

// takeJob greets the host and returns the job it sends.
func (g fakeInit) takeJob() []byte {
	g.hello(linkVersion)
	var text []byte
	for {
		kind, data, err := g.receive()
		if err != nil || kind != frameJob {
			g.t.Errorf("the job is frame %d, %v", kind, err)
			return nil
		}
		g.send(frameAck, nil)
		if len(data) == 0 {
			return text
		}
		text = append(text, data...)
	}
}

func (g fakeInit) exit(code uint32) {
	g.send(frameExit, binary.LittleEndian.AppendUint32(nil, code))
}

func TestSessionSendsTheJob(t *testing.T) {
	c := Config{Kind: UML,
		Driver: GuestDriver{Modules: []Module{{"m.ko", "p=1"}}, File: "/dev/paracuda"},
		Program: Program{Name: "prog", Args: []string{"a b", "", "c\nd"}, Dir: "/d",
			Env: []string{"X=1"}, placed: []ownDir{{dir: "/l"}, {dir: "/w", keep: true},
				{dir: "/v", keep: true, tag: "t"}}}}
	var got []byte
	code, err := play(t, c, func(g fakeInit) {
		got = g.takeJob()
		g.exit(7)
	})
	want := "module=m.ko\x00parameters=p=1\x00wait=/dev/paracuda\x00dir=/d\x00layer=/l\x00" +
		"write=/w\x00write=/v\x00tag=t\x00env=X=1\x00" +
		"arg=prog\x00arg=a b\x00arg=\x00arg=c\nd\x00stdin=null\x00"
	if code != 7 || err != nil || string(got) != want {
		t.Errorf("run = %d, %v; the job was\n%q, not\n%q", code, err, got, want)
	}
}

func TestSessionSendsALongJobInParts(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	var got []byte
	_, err := play(t, Config{Kind: UML, Program: Program{Name: long}}, func(g fakeInit) {
		got = g.takeJob()
		g.exit(0)
	})
	if err != nil || !bytes.Contains(got, []byte("arg="+long+"\x00")) {
		t.Errorf("%v; the job has %d bytes", err, len(got))
	}
}

func TestSessionRelaysOutput(t *testing.T) {
	var out, errs bytes.Buffer
	c := Config{Program: Program{Name: "p", Stdout: &out, Stderr: &errs}}
	_, err := play(t, c, func(g fakeInit) {
		g.takeJob()
		g.send(frameStdout, []byte("a\x00\r\n"))
		g.send(frameStderr, []byte("e"))
		g.send(frameStdout, []byte("b"))
		g.exit(0)
	})
	if err != nil || out.String() != "a\x00\r\nb" || errs.String() != "e" {
		t.Errorf("%v; out %q, err %q", err, out.String(), errs.String())
	}
}

func TestSessionRelaysInput(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789\x00\xff"), 5000)
	var got []byte
	_, err := play(t, Config{Kind: UML, Program: Program{Name: "p", Stdin: bytes.NewReader(input)}},
		func(g fakeInit) {
			g.takeJob()
			for {
				kind, data, err := g.receive()
				if err != nil || kind != frameStdin || len(data) > 2048 {
					t.Errorf("frame %d of %d bytes, %v", kind, len(data), err)
				}
				g.send(frameAck, nil)
				if len(data) == 0 {
					break
				}
				got = append(got, data...)
			}
			g.exit(0)
		})
	if err != nil || !bytes.Equal(got, input) {
		t.Errorf("%v; %d bytes of %d came", err, len(got), len(input))
	}
}

// TestSessionHearsOfLostFiles: those beyond mostLost are ignored, and so is a frame that is too
// short.
func TestSessionHearsOfLostFiles(t *testing.T) {
	host, guest := net.Pipe()
	s, err := newSession(host, &Config{Program: Program{Name: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		g := fakeInit{&conn{stream: guest}, t}
		g.takeJob()
		g.send(frameLost, []byte{1, 0})
		for range mostLost + 10 {
			g.send(frameLost, append([]byte{3, 0, 0, 0}, "/a b"...))
		}
		g.exit(0)
	}()
	if _, err := s.run(); err != nil || len(s.lost) != mostLost ||
		s.lost[0] != (Lost{Files: 3, Dir: "/a b"}) {
		t.Errorf("%v: %d are lost, %+v", err, len(s.lost), s.lost)
	}
}

func TestSessionTellsOfAClosedOutput(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	_, err := play(t, Config{Program: Program{Name: "p", Stdout: w}}, func(g fakeInit) {
		g.takeJob()
		g.send(frameStdout, []byte("a"))
		kind, data, err := g.receive()
		if err != nil || kind != frameClose || !bytes.Equal(data, []byte{1, 0, 0, 0}) {
			t.Errorf("frame %d with %v, %v", kind, data, err)
		}
		g.send(frameStdout, []byte("b"))
		g.exit(141)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSessionErrors(t *testing.T) {
	for want, f := range map[string]func(g fakeInit){
		"the VM ended before the program did": func(g fakeInit) {},
		"it speaks version 9, not":            func(g fakeInit) { g.hello(9) },
		"frame 19 came first":                 func(g fakeInit) { g.exit(0) },
		"load module x: No such device": func(g fakeInit) {
			g.takeJob()
			g.send(frameError, []byte("load module x: No such device"))
		},
	} {
		if _, err := play(t, Config{Program: Program{Name: "p"}}, f); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, not %q", err, want)
		}
	}
}

// TestSessionOfACopy has the guest wait until it has learnt that it is a copy.
func TestSessionOfACopy(t *testing.T) {
	own := map[string]bool{}
	for range 2 {
		host, guest := net.Pipe()
		s, err := newSession(host, &Config{Program: Program{Name: "p"}})
		if err != nil {
			t.Fatal(err)
		}
		s.copied = true
		go func() {
			g := fakeInit{&conn{stream: guest}, t}
			kind, data, err := g.receive()
			if err != nil || kind != frameCopied || len(data) != 48 {
				t.Errorf("frame %d with %d bytes, %v", kind, len(data), err)
				guest.Close()
				return
			}
			own[string(data[16:])] = true
			now := int64(binary.LittleEndian.Uint64(data))
			if d := time.Since(time.Unix(now, 0)); d < 0 || d > time.Minute {
				t.Errorf("its clock would be %v late", d)
			}
			g.takeJob()
			g.exit(5)
		}()
		if code, err := s.run(); code != 5 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
		host.Close()
	}
	if len(own) != 2 {
		t.Error("two copies are given the same random bytes")
	}
}

func TestSessionEndsWhenTheLinkBreaks(t *testing.T) {
	_, err := play(t, Config{Program: Program{Name: "p"}}, func(g fakeInit) { g.takeJob() })
	if !errors.Is(err, errNoExit) {
		t.Errorf("the error is %v", err)
	}
	_, err = play(t, Config{Program: Program{Name: "p"}}, func(g fakeInit) {
		g.takeJob()
		g.stream.Write([]byte{17, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	})
	if !errors.Is(err, errNoExit) {
		t.Errorf("a frame without end: %v", err)
	}
}

func TestJobRefusesAZeroByte(t *testing.T) {
	if _, err := job(&GuestDriver{}, &Program{Name: "a\x00b"}); err == nil {
		t.Error("a name that no program can have was taken")
	}
}
