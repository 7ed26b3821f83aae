// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// fake is a driver whose streams are busy until they are said to be idle. Events are complete when
// the stream is that they were recorded in.
type fake struct {
	busy      map[gpubackend.Stream]bool
	capturing map[gpubackend.Stream]bool
	events    map[gpubackend.Event]gpubackend.Stream
	last      uint64
	questions int
	waits     int
	spoiled   bool // a capture ended since the default stream was asked
	printing  bool
	sticky    gpubackend.Result
	announced int
	clock     int64                      // goes on by a microsecond with each record
	at        map[gpubackend.Event]int64 // when they were recorded
}

func (f *fake) ready(s gpubackend.Stream) gpubackend.Result {
	f.questions++
	switch {
	case f.sticky != gpubackend.Success:
		return f.sticky
	case f.busy[s]:
		return gpubackend.NotReady
	}
	return gpubackend.Success
}

func (f *fake) wait() gpubackend.Result {
	f.waits++
	return gpubackend.Success
}
func (f *fake) CtxSynchronize() gpubackend.Result {
	return f.wait()
}
func (f *fake) StreamSynchronize(gpubackend.Stream) gpubackend.Result {
	return f.wait()
}
func (f *fake) EventSynchronize(gpubackend.Event) gpubackend.Result {
	return f.wait()
}
func (f *fake) StreamDestroy(gpubackend.Stream) gpubackend.Result {
	return gpubackend.Success
}
func (f *fake) StreamQuery(s gpubackend.Stream) gpubackend.Result {
	if s == gpubackend.DefaultStream && len(f.capturing) > 0 {
		f.spoiled = true
		return gpubackend.StreamCaptureImplicit
	}
	return f.ready(s)
}
func (f *fake) EventQuery(e gpubackend.Event) gpubackend.Result {
	return f.ready(f.events[e])
}
func (f *fake) Working() bool {
	return f.printing
}
func (f *fake) CanAnnounce() bool               { return true }
func (f *fake) LaunchHostFunc() driver.Function { return nil }
func (f *fake) Touch(gpubackend.Stream)         {}
func (f *fake) StreamBatchMemOp(gpubackend.Stream, []byte, uint64) gpubackend.Result {
	return f.sticky
}
func (f *fake) StreamCreateWithPriority(_, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	f.last++
	return gpubackend.Stream(10 + f.last), gpubackend.Success
}
func (f *fake) StreamWaitEvent(gpubackend.Stream, gpubackend.Event, uint64) gpubackend.Result {
	return gpubackend.Success
}
func (f *fake) StreamWriteValue32(gpubackend.Stream, uint64, uint32) gpubackend.Result {
	f.announced++
	return gpubackend.Success
}
func (f *fake) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	f.last++
	e := gpubackend.Event(f.last)
	f.events[e] = 0
	return e, gpubackend.Success
}
func (f *fake) EventDestroy(e gpubackend.Event) gpubackend.Result {
	delete(f.events, e)
	delete(f.at, e)
	return gpubackend.Success
}
func (f *fake) EventElapsed(from, to gpubackend.Event) (uint64, gpubackend.Result) {
	begin, end := f.at[from], f.at[to]
	if begin == 0 || end == 0 {
		return 0, gpubackend.InvalidHandle
	}
	return uint64(end - begin), gpubackend.Success
}
func (f *fake) EventRecordWithFlags(
	e gpubackend.Event, s gpubackend.Stream, _ uint64,
) gpubackend.Result {
	f.events[e] = s
	f.clock += 1000
	f.at[e] = f.clock
	return gpubackend.Success
}
func (f *fake) StreamIsCapturing(s gpubackend.Stream) (uint64, gpubackend.Result) {
	if f.capturing[s] {
		return 1, gpubackend.Success
	}
	if s == gpubackend.DefaultStream && len(f.capturing) > 0 {
		return 0, gpubackend.StreamCaptureImplicit
	}
	return 0, gpubackend.Success
}
func (f *fake) StreamBeginCaptureRelaxed(s gpubackend.Stream) gpubackend.Result {
	f.capturing[s] = true
	return gpubackend.Success
}
func (f *fake) StreamBeginCaptureToGraphRelaxed(
	s gpubackend.Stream, _ gpubackend.Graph, _ []gpubackend.GraphNode, _ []byte,
) gpubackend.Result {
	return f.StreamBeginCaptureRelaxed(s)
}
func (f *fake) StreamEndCapture(s gpubackend.Stream) (gpubackend.Graph, gpubackend.Result) {
	if !f.capturing[s] {
		return 0, gpubackend.IllegalState
	}
	delete(f.capturing, s)
	return 5, gpubackend.Success
}

type room struct {
	*Streams
	fake    *fake
	x       *contexts.Contexts
	settled int
}

func newRoom() *room {
	r := &room{fake: &fake{
		busy: map[gpubackend.Stream]bool{}, capturing: map[gpubackend.Stream]bool{},
		events: map[gpubackend.Event]gpubackend.Stream{}, at: map[gpubackend.Event]int64{},
	}}
	x, _ := contextstest.New(func(c *contexts.Context) { r.Ended(c) })
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.x = x
	r.Streams = New(r.fake, x, r.fake, func() { r.settled++ }, logrus.NewEntry(log))
	return r
}

// work gives streams work in the current context.
func (r *room) work(streams ...gpubackend.Stream) {
	for _, s := range streams {
		r.x.Current().Work.Touch(s)
		r.fake.busy[s] = true
	}
}

func (r *room) stream() gpubackend.Stream {
	s, _ := r.StreamCreateWithPriority(0, 0)
	return s
}

func want(t *testing.T, what string, r, wanted gpubackend.Result) {
	t.Helper()
	if r != wanted {
		t.Fatalf("%s: result %d, want %d", what, r, wanted)
	}
}

// TestContextQueryAsksWhatIsBusy, and each no more than it has to.
func TestContextQueryAsksWhatIsBusy(t *testing.T) {
	r := newRoom()
	a, b := r.stream(), r.stream()
	r.stream()
	want(t, "idle", r.ContextQuery(), gpubackend.Success)
	r.work(a, b)
	want(t, "busy", r.ContextQuery(), gpubackend.NotReady)
	r.fake.busy[b] = false
	want(t, "half busy", r.ContextQuery(), gpubackend.NotReady)
	want(t, "half busy", r.ContextQuery(), gpubackend.NotReady)
	r.fake.busy[a] = false
	want(t, "idle again", r.ContextQuery(), gpubackend.Success)
	want(t, "and again", r.ContextQuery(), gpubackend.Success)
	if r.fake.questions != 5 || r.settled != 3 {
		t.Errorf("%d questions, settled %d times", r.fake.questions, r.settled)
	}
	r.work(a)
	r.fake.sticky = gpubackend.IllegalAddress
	want(t, "dead", r.ContextQuery(), gpubackend.IllegalAddress)
	r.fake.sticky = gpubackend.Success
	want(t, "still dead", r.ContextQuery(), gpubackend.IllegalAddress)
	r.x.SetCurrent(0)
	want(t, "no context", r.ContextQuery(), gpubackend.InvalidContext)
}

// TestStreamsThatCapture run nothing, and asking would end the capture. What they were given before
// is waited for.
func TestStreamsThatCapture(t *testing.T) {
	r := newRoom()
	s, other := r.stream(), r.stream()
	r.work(s)
	want(t, "begin", r.StreamBeginCapture(s, 0), gpubackend.Success)
	questions := r.fake.questions
	r.x.Current().Work.Touch(s)
	want(t, "while the work before goes on", r.ContextQuery(), gpubackend.NotReady)
	if !r.Capturing() || r.x.Current().Work.Has(s) {
		t.Error("the stream that captures is asked")
	}
	r.fake.busy[s] = false
	want(t, "when it is done", r.ContextQuery(), gpubackend.Success)
	if n := r.fake.questions - questions; n != 2 || len(r.fake.events) != 0 {
		t.Errorf("%d questions, %d events are left", n, len(r.fake.events))
	}
	r.work(other)
	want(t, "announce during a capture", r.Announce(other, false, 8, 1), gpubackend.NotSupported)
	_, result := r.StreamEndCapture(other)
	want(t, "end another", result, gpubackend.IllegalState)
	g, result := r.StreamEndCapture(s)
	want(t, "end", result, gpubackend.Success)
	if g != 5 || r.Capturing() {
		t.Errorf("graph %d", g)
	}
	want(t, "edges of no nodes", r.StreamBeginCaptureToGraph(s, 1, nil, make([]byte, 8), 0),
		gpubackend.InvalidValue)
}

// TestDefaultStreamDuringACapture isn't asked while a stream that waits for it is captured: that
// would end the capture. It has work until it is asked again.
func TestDefaultStreamDuringACapture(t *testing.T) {
	r := newRoom()
	s := r.stream()
	r.work(gpubackend.DefaultStream)
	want(t, "begin", r.StreamBeginCapture(s, 0), gpubackend.Success)
	r.fake.busy[gpubackend.DefaultStream] = false
	want(t, "query", r.ContextQuery(), gpubackend.StreamCaptureImplicit)
	here := r.x.Current()
	want(t, "query beside", r.queryBeside(here, nil), gpubackend.StreamCaptureImplicit)
	if r.fake.spoiled || !here.Work.Busy() {
		t.Errorf("spoiled: %t, busy: %t", r.fake.spoiled, here.Work.Busy())
	}
	_, result := r.StreamEndCapture(s)
	want(t, "end", result, gpubackend.Success)
	want(t, "query when the capture is over", r.ContextQuery(), gpubackend.Success)
}

// TestDestroyedStreams: an event stands for their work, in each context that gave them some.
func TestDestroyedStreams(t *testing.T) {
	r := newRoom()
	s := r.stream()
	r.work(s)
	other, _ := r.x.DevicePrimaryCtxRetain(1)
	r.x.SetCurrent(other)
	want(t, "destroy", r.StreamDestroy(s), gpubackend.Success)
	want(t, "the other context", r.ContextQuery(), gpubackend.Success)
	r.x.SetCurrent(contextstest.Primary)
	want(t, "its context", r.ContextQuery(), gpubackend.NotReady)
	r.fake.busy[s] = false
	want(t, "its context, later", r.ContextQuery(), gpubackend.Success)
	want(t, "the default stream", r.StreamDestroy(gpubackend.LegacyStream),
		gpubackend.InvalidHandle)
	if r.Known() != 0 || len(r.fake.events) != 0 {
		t.Errorf("%d streams, %d events are left", r.Known(), len(r.fake.events))
	}
}

// TestStreamsEndWithTheirContext, and captures in them.
func TestStreamsEndWithTheirContext(t *testing.T) {
	r := newRoom()
	c, _ := r.x.CtxCreate(0, 0)
	r.x.SetCurrent(c)
	s := r.stream()
	r.x.SetCurrent(contextstest.Primary)
	r.work(s)
	r.StreamBeginCapture(s, 0)
	r.x.CtxDestroy(c)
	if r.Known() != 0 || r.Capturing() {
		t.Errorf("%d streams, capturing %t", r.Known(), r.Capturing())
	}
}

// TestGreenStreamsAreWaitedFor by the context that they are part of.
func TestGreenStreamsAreWaitedFor(t *testing.T) {
	r := newRoom()
	green := r.x.AddGreen(300, r.x.Current())
	r.x.SetCurrent(300)
	s := r.stream()
	r.work(s)
	r.x.SetCurrent(contextstest.Primary)
	want(t, "query", r.ContextQuery(), gpubackend.NotReady)
	r.work(7)
	want(t, "announce all", r.Announce(0, true, 8, 1), gpubackend.NotSupported)
	r.fake.busy[7], r.fake.busy[s] = false, false
	want(t, "query", r.ContextQuery(), gpubackend.Success)
	if green.Work.Busy() || r.x.CurrentHandle() != contextstest.Primary {
		t.Errorf("busy: %t, %d is current", green.Work.Busy(), r.x.CurrentHandle())
	}
}

// TestAnnouncements replace questions, unless kernels print.
func TestAnnouncements(t *testing.T) {
	r := newRoom()
	s := r.stream()
	want(t, "idle", r.Announce(s, false, 8, 1), gpubackend.NotSupported)
	r.work(s)
	want(t, "one", r.Announce(s, false, 8, 1), gpubackend.Success)
	if r.Announced(8, 2) || !r.Announced(8, 1) || r.settled != 1 {
		t.Errorf("settled %d times", r.settled)
	}
	want(t, "quiet, whatever the driver says", r.StreamQuery(s), gpubackend.Success)
	r.work(s)
	want(t, "all", r.Announce(0, true, 8, 3), gpubackend.Success)
	r.fake.printing = true
	want(t, "printing", r.Announce(s, false, 8, 4), gpubackend.NotSupported)
	r.fake.busy[s] = false
	want(t, "query", r.StreamQuery(s), gpubackend.Success)
	if r.fake.waits != 1 || r.fake.announced != 2 {
		t.Errorf("waited %d times for what was printed, announced %d times", r.fake.waits,
			r.fake.announced)
	}
}

// TestNoHostFunctions where the driver has none.
func TestNoHostFunctions(t *testing.T) {
	r := newRoom()
	if _, result := r.HostFunc(2, 1, nil); result != gpubackend.NotSupported {
		t.Errorf("result %d", result)
	}
	want(t, "kept", r.HostFuncKept(2, 1, nil), gpubackend.NotSupported)
	r.ReleaseAll()
}
