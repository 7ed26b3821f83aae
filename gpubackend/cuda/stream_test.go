// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cuda/output"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func emptyLaunch(f gpubackend.Function) *gpubackend.Launch {
	return &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
}

func TestContextQueryAsksBusyStreamsOnly(t *testing.T) {
	d := newDevice(t, Options{})
	var streams []gpubackend.Stream
	for range 20 {
		s, r := d.StreamCreateWithPriority(1, 0)
		must(t, "create", r)
		streams = append(streams, s)
	}
	l := emptyLaunch(loadSilent(t, d, "empty"))
	for range 5 {
		for _, s := range []gpubackend.Stream{streams[3], streams[7], gpubackend.LegacyStream,
			gpubackend.DefaultStream} {
			l.Stream = s
			must(t, "launch", d.Launch(l))
		}
	}
	before := drivertest.Count("cuStreamQuery")
	drivertest.Tell("fake_not_ready", 2)
	want(t, "query", d.ContextQuery(), gpubackend.NotReady)
	want(t, "query", d.ContextQuery(), gpubackend.NotReady)
	must(t, "query", d.ContextQuery())
	must(t, "query when idle", d.ContextQuery())
	if n := drivertest.Count("cuStreamQuery") - before; n != 5 {
		t.Errorf("%d questions, want 5", n)
	}
}

func TestDestroyedStreamIsWaitedFor(t *testing.T) {
	d := newDevice(t, Options{})
	s, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	l := emptyLaunch(load(t, d, "empty"))
	l.Stream = s
	must(t, "launch", d.Launch(l))
	drivertest.Tell("fake_not_ready", 2)
	must(t, "destroy", d.StreamDestroy(s))
	want(t, "query", d.ContextQuery(), gpubackend.NotReady)
	must(t, "query", d.ContextQuery())
	want(t, "destroy the default stream", d.StreamDestroy(gpubackend.DefaultStream),
		gpubackend.InvalidHandle)
}

func TestLaunchDoesNotAllocate(t *testing.T) {
	d := newDevice(t, Options{})
	l := emptyLaunch(load(t, d, "empty"))
	if n := testing.AllocsPerRun(100, func() { d.Launch(l) }); n != 0 {
		t.Errorf("%v allocations a launch", n)
	}
}

func TestLaunch(t *testing.T) {
	attribute := func(id uint32) []byte {
		b := make([]byte, cudaabi.LaunchAttributeSize)
		binary.LittleEndian.PutUint32(b, id)
		return b
	}
	for _, test := range []struct {
		name   string
		change func(l *gpubackend.Launch)
		want   gpubackend.Result
	}{
		{"plain", func(*gpubackend.Launch) {}, 0},
		{"more parameters", func(l *gpubackend.Launch) { l.Parameters = make([]byte, 32) },
			gpubackend.LaunchOutOfResources},
		{"no parameters", func(l *gpubackend.Launch) { l.Parameters = nil },
			gpubackend.InvalidValue},
		{"too many parameters",
			func(l *gpubackend.Launch) { l.Parameters = make([]byte, cudaabi.MaxParameterBytes+1) },
			gpubackend.InvalidValue},
		{"empty grid", func(l *gpubackend.Launch) { l.Grid[0] = 0 }, gpubackend.InvalidValue},
		{"cluster", func(l *gpubackend.Launch) { l.Attributes = attribute(4) }, 0},
		{"no event in an attribute", func(l *gpubackend.Launch) { l.Attributes = attribute(7) },
			gpubackend.InvalidValue},
		{"node in an attribute", func(l *gpubackend.Launch) { l.Attributes = attribute(13) },
			gpubackend.NotSupported},
		{"unknown attribute", func(l *gpubackend.Launch) { l.Attributes = attribute(1 << 31) },
			gpubackend.NotSupported},
		{"half an attribute", func(l *gpubackend.Launch) { l.Attributes = attribute(4)[:40] },
			gpubackend.InvalidValue},
		{"too many attributes", func(l *gpubackend.Launch) {
			l.Attributes = make([]byte, 33*cudaabi.LaunchAttributeSize)
		}, gpubackend.InvalidValue},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			l := emptyLaunch(load(t, d, "vector_add"))
			l.Parameters = make([]byte, 28)
			test.change(l)
			want(t, "launch", d.Launch(l), test.want)
		})
	}
}

func TestLaunchAll(t *testing.T) {
	d := newDevice(t, Options{})
	add := load(t, d, "vector_add")
	list := make([]gpubackend.Launch, 3*driver.MaxLaunches+5)
	for i := range list {
		list[i] = *emptyLaunch(add)
		list[i].Parameters = make([]byte, 28)
	}
	before := drivertest.Count("cuLaunchKernel")
	if n, r := d.LaunchAll(list); n != len(list) || r != gpubackend.Success {
		t.Errorf("%d queued, result %d", n, r)
	}
	if n := drivertest.Count("cuLaunchKernel") - before; n != uint64(len(list)) {
		t.Errorf("%d launches", n)
	}
	list[200].Parameters = make([]byte, 32)
	if n, r := d.LaunchAll(list); n != 200 || r != gpubackend.LaunchOutOfResources {
		t.Errorf("%d queued, result %d", n, r)
	}
	list[200].Parameters = make([]byte, cudaabi.MaxParameterBytes+1)
	if n, r := d.LaunchAll(list); n != 200 || r != gpubackend.InvalidValue {
		t.Errorf("%d queued, result %d", n, r)
	}
	if n := testing.AllocsPerRun(10, func() { d.LaunchAll(list[:100]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range list {
		// few fit at a time; the fake wants 28
		list[i].Parameters = make([]byte, cudaabi.MaxParameterBytes)
	}
	if n, r := d.LaunchAll(list); n != 0 || r != gpubackend.LaunchOutOfResources {
		t.Errorf("%d queued, result %d", n, r)
	}
	if n, r := d.LaunchAll(nil); n != 0 || r != gpubackend.Success {
		t.Errorf("%d queued, result %d", n, r)
	}
}

func TestStickyError(t *testing.T) {
	d := newDevice(t, Options{})
	p := alloc(t, d, 4096)
	must(t, "launch", d.Launch(emptyLaunch(load(t, d, "fault"))))
	want(t, "query", d.ContextQuery(), gpubackend.IllegalAddress)
	_, r := d.MemAlloc(4096)
	want(t, "allocate", r, gpubackend.IllegalAddress)
	want(t, "copy", d.Copy(p, p, 1, 0), gpubackend.IllegalAddress)
	want(t, "query again", d.ContextQuery(), gpubackend.IllegalAddress)
}

// TestAnnounce: only the end of work that is known of is announced, and its arrival makes the
// stream idle unless there is more.
func TestAnnounce(t *testing.T) {
	d := newDevice(t, Options{})
	empty := loadSilent(t, d, "empty")
	launch := func(s gpubackend.Stream) {
		t.Helper()
		l := emptyLaunch(empty)
		l.Stream = s
		must(t, "launch", d.Launch(l))
	}
	at := alloc(t, d, 4096)
	one, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	must(t, "query", d.ContextQuery())
	want(t, "idle", d.Announce(one, false, at, 1), gpubackend.NotSupported)
	want(t, "all idle", d.Announce(0, true, at, 1), gpubackend.NotSupported)
	launch(one)
	want(t, "another stream", d.Announce(0, false, at, 1), gpubackend.NotSupported)
	must(t, "busy", d.Announce(one, false, at, 2))
	if !d.Announced(at, 2) {
		t.Error("the stream is not seen to be idle")
	}
	want(t, "idle again", d.Announce(one, false, at, 3), gpubackend.NotSupported)
	launch(one)
	must(t, "all of one stream", d.Announce(0, true, at, 4))
	launch(one)
	if d.Announced(at, 4) {
		t.Error("work after the announcement was forgotten")
	}
	must(t, "still busy", d.Announce(one, false, at, 5))
	launch(0)
	want(t, "all of two streams", d.Announce(0, true, at, 6), gpubackend.NotSupported)
	must(t, "the legacy stream, by its other name",
		d.Announce(gpubackend.LegacyStream, false, at, 7))
	if d.Announced(at, 7) || d.Announce(0, false, at, 8) != gpubackend.NotSupported ||
		d.Announce(one, false, at, 9) != gpubackend.Success {
		t.Error("want one stream left busy")
	}
}

// TestQuietStream: after its end was announced a stream is ready, whatever the driver says for a
// moment, until it has work.
func TestQuietStream(t *testing.T) {
	d := newDevice(t, Options{})
	l := emptyLaunch(loadSilent(t, d, "empty"))
	at := alloc(t, d, 4096)
	var streams []gpubackend.Stream
	for range 2 {
		s, r := d.StreamCreateWithPriority(1, 0)
		must(t, "create", r)
		streams = append(streams, s)
	}
	launch := func(s gpubackend.Stream) {
		t.Helper()
		l.Stream = s
		must(t, "launch", d.Launch(l))
	}
	query := func(what string, s gpubackend.Stream, result gpubackend.Result) {
		t.Helper()
		drivertest.Tell("fake_not_ready", 1)
		want(t, what, d.StreamQuery(s), result)
		drivertest.Tell("fake_not_ready", 0)
	}
	one, other := streams[0], streams[1]
	launch(one)
	launch(other)
	must(t, "announce", d.Announce(one, false, at, 1))
	must(t, "announce", d.Announce(other, false, at+64, 1))
	query("before it arrives", one, gpubackend.NotReady)
	launch(other)
	d.Announced(at, 1)
	d.Announced(at+64, 1)
	query("after it has arrived", one, gpubackend.Success)
	query("with work behind it", other, gpubackend.NotReady)
	launch(other)
	query("work elsewhere", one, gpubackend.Success)
	launch(one)
	query("work again", one, gpubackend.NotReady)
	launch(0)
	must(t, "announce", d.Announce(0, false, at, 2))
	d.Announced(at, 1)
	query("an earlier one is told of late", gpubackend.LegacyStream, gpubackend.NotReady)
	d.Announced(at, 2)
	query("the legacy stream", gpubackend.LegacyStream, gpubackend.Success)
	launch(one)
	query("the legacy stream, behind others", gpubackend.LegacyStream, gpubackend.NotReady)
}

func TestHostFunc(t *testing.T) {
	d := newDevice(t, Options{})
	s, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	called := make(chan uint64, 8)
	var releases []func()
	for i := range uint64(8) {
		release, r := d.HostFunc(s, i, func(token uint64) { called <- token })
		must(t, "host function", r)
		releases = append(releases, release)
	}
	seen := map[uint64]bool{}
	for range 8 {
		select {
		case token := <-called:
			seen[token] = true
		case <-time.After(time.Minute):
			t.Fatalf("%d of 8 called", len(seen))
		}
	}
	want(t, "stream before release", d.StreamQuery(s), gpubackend.NotReady)
	for _, release := range releases[:7] {
		release()
		release()
	}
	want(t, "stream before the last release", d.StreamQuery(s), gpubackend.NotReady)
	d.ReleaseAll()
	for deadline := time.Now().Add(time.Minute); d.StreamQuery(s) != gpubackend.Success; {
		if time.Now().After(deadline) {
			t.Fatal("the stream still waits")
		}
	}
	releases[7]()
}

// TestAwaitsHost: all that is under way is behind a function that was called, or it isn't.
func TestAwaitsHost(t *testing.T) {
	d := newDevice(t, Options{})
	held, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	other, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	if d.AwaitsHost() {
		t.Error("nothing was begun")
	}
	called := make(chan uint64)
	release, r := d.HostFunc(held, 1, func(token uint64) { called <- token })
	must(t, "host function", r)
	<-called
	if !d.AwaitsHost() {
		t.Error("a stream is held, and nothing else was begun")
	}
	l := emptyLaunch(loadSilent(t, d, "empty"))
	for _, s := range []gpubackend.Stream{held, other} {
		l.Stream = s
		must(t, "launch", d.Launch(l))
	}
	drivertest.Tell("fake_not_ready", 1)
	if d.AwaitsHost() {
		t.Error("another stream goes on")
	}
	if !d.AwaitsHost() {
		t.Error("the other stream has ended")
	}
	must(t, "begin", d.StreamBeginCapture(other, 0))
	if asked := drivertest.Count("cuStreamQuery"); !d.AwaitsHost() ||
		drivertest.Count("cuStreamQuery") != asked {
		t.Error("the other stream captures: asking ends that")
	}
	_, r = d.StreamEndCapture(other)
	must(t, "end", r)
	release()
	if d.AwaitsHost() {
		t.Error("the function has returned")
	}
}

// TestOutput runs itself in a process whose output it may take.
func TestOutput(t *testing.T) {
	if os.Getenv("CAPTURE_OUTPUT") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestOutput$")
		c.Env = append(os.Environ(), "CAPTURE_OUTPUT=1")
		if out, err := c.CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "captured") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	capture, err := output.NewCapture()
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(t, Options{Capture: capture})
	l := emptyLaunch(load(t, d, "print"))
	for range 3 {
		must(t, "launch", d.Launch(l))
	}
	must(t, "query", d.ContextQuery())
	_, _ = os.Stderr.WriteString("assertion")
	out := d.Output()
	if len(out) != 2 || out[0].FD != 1 ||
		string(out[0].Text) != strings.Repeat("hello from a kernel\n", 3) ||
		out[1].FD != 2 || string(out[1].Text) != "assertion" {
		_, _ = capture.Log().WriteString("wrong output\n")
		t.FailNow()
	}
	if again := d.Output(); len(again) != 0 {
		_, _ = capture.Log().WriteString("output twice\n")
		t.FailNow()
	}
	_, _ = capture.Log().WriteString("captured\n")
	os.Exit(0) // a process's output is captured for as long as it lives
}
