// SPDX-License-Identifier: Apache-2.0

// Package handover has the messages between a device process and its workers and mover, and the
// memory that they share: which guest memory and queue a worker gets, when it must let go of them,
// and what it counted.
//
// Both ends are this program, but a worker runs its guest's kernels and may be taken over through
// them. The device process therefore believes a worker only about its own queue, where a lie harms
// only that worker's guest.
//
// Files: kinds.go (the messages, and what each may have), message.go (its fields and files),
// conn.go (how it travels), rights.go (descriptors that go with it), log.go, memory.go
// (the guest's), counters.go (what is counted), state.go (where a worker's queue stands),
// standing.go (where children stand when another device process takes them over).
package handover

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

// Message is one message: its kind, and the fields and files that cargoes lists for that kind. The
// files travel with it in this order: kick, call, state, conn, object, ring, wake, image, log,
// listener, the gate's and the ledger's, as far as Files lists them, then those of lanes and of
// memory.
type Message struct {
	Kind  Kind   `json:"kind"`
	Error string `json:"error,omitempty"` // why what was asked for isn't done
	// which request this is, or answers, where the answer may come too late
	Turn uint64 `json:"turn,omitempty"`
	// why a program can't be saved, where nobody has asked to save it
	Reason string `json:"reason,omitempty"`

	// A worker that starts, and its program.
	GPU     string `json:"gpu,omitempty"`
	Home    int    `json:"home,omitempty"` // the GPU for which it is to be warm
	Channel int    `json:"channel"`
	PID     int32  `json:"pid,omitempty"`
	Comm    string `json:"comm,omitempty"`
	// its entry on pages that all workers of the VM share
	Entry int  `json:"entry,omitempty"`
	Held  bool `json:"held,omitempty"` // it starts as one that is drained
	// It goes on from a record, which comes through lanes. Without a queue it waits for
	// one, and for the guest's memory, as one that has paused.
	Saved bool `json:"saved,omitempty"`
	// With KindWarm and KindStart: it confines itself, and says so, before it gets the guest's
	// memory. With KindStart to one that has done so: it asks for what it maps of that.
	Asks bool `json:"asks,omitempty"`

	// What it works with. Some of it changes later.
	Queue  *Queue   `json:"queue,omitempty"`
	Memory []Region `json:"memory,omitempty"`
	Log    *Log     `json:"log,omitempty"`
	Policy *Policy  `json:"policy,omitempty"`
	Object *Object  `json:"object,omitempty"`
	// where in guest memory the driver vouches for what may be copied; 0: it doesn't
	Vouchers uint64 `json:"vouchers,omitempty"`

	// Device memory that moves: how much a worker that is drained has to move, or is to move out to
	// a new image, or lacks room for; and how long draining or pausing may take.
	Bytes uint64        `json:"bytes,omitempty"`
	Grace time.Duration `json:"grace,omitempty"`
	Whole bool          `json:"whole,omitempty"` // it must be possible to save it, too
	Busy  bool          `json:"busy,omitempty"`  // it isn't drained, since its work goes on
	// an image may be kept when the worker goes on, and will be; and how much of it needed no copy
	Keep      bool   `json:"keep,omitempty"`
	Unchanged uint64 `json:"unchanged,omitempty"`

	// A record: its device memory is without what was copied ahead, and hasn't changed; or it is in
	// a file, and without what that file has; or both: without what was copied to the file ahead.
	// One in a file may get another one behind it. Copying ahead: what that file has needs no copy.
	Ahead bool `json:"ahead,omitempty"`
	Filed bool `json:"filed,omitempty"`

	// Copying ahead: what was copied, by its addresses, and that a pass is over; to a worker: that
	// all is. Of a worker that was taken over: that it has said all that it shares.
	Sectors []uint64 `json:"sectors,omitempty"`
	Over    bool     `json:"over,omitempty"`

	// What workers share: by which secrets, what is told of it besides its file, and that nobody
	// shares it.
	Shared []ShareName `json:"shared,omitempty"`
	Text   []byte      `json:"text,omitempty"`
	Nobody bool        `json:"nobody,omitempty"`

	Standing *Standing `json:"standing,omitempty"`
	Fault    *Fault    `json:"fault,omitempty"`
	Files    Files     `json:"files"`
}

// Fault is a worker's GPU that has answered that it is broken or gone.
type Fault struct {
	GPU    int   `json:"gpu"` // of the VM's
	Result int32 `json:"result"`
}

// Files says which files a message carries.
type Files struct {
	Kick, Call, State, Conn, Object bool
	Ring, Wake                      bool // the rest of a link.Side, of which Conn is the first
	Image                           bool // of device memory, which came before the record
	Log                             bool
	Listener                        bool // of a worker's filter of system calls
	Gate                            bool // GateFiles files: a gate.Page's, in the order of its FDs
	Ledger                          bool // a ledger.Page's
	Lanes                           int  // that many, of a stream (package lanes)
	Memory                          int  // number of files that Region.File indexes
}

// GateFiles is how many files a gate has.
const GateFiles = 3

// ObjectKind is what an object is.
type ObjectKind string

// Memory comes with a file; a pool is known by its token.
const (
	ObjectMemory ObjectKind = "memory"
	ObjectPool   ObjectKind = "pool"
)

// Object is something that workers of one VM share. Its fields come from the worker that offers it,
// which may lie.
type Object struct {
	Kind   ObjectKind
	Number uint32 // by which the worker that offers it knows it
	Bytes  uint64 // of memory
	GPU    uint64 // its id, as in the ledger: processes number their GPUs differently
	Token  uint64 // by which processes recognise it
	// The device process adds these for a worker that imports it.
	ID     uint64 // tells objects of the VM apart
	Own    bool   // that worker offers it itself
	Import uint32 // by which the guest's library will ask for it
	// An earlier device process may have handed it over already, after all with lower numbers.
	Again bool `json:",omitempty"`
}

// SecretBytes is the size of a secret.
const SecretBytes = 16

// ShareName is how something is named that a worker shares: who knows the secret may have it.
type ShareName struct {
	Kind   string
	Secret [SecretBytes]byte
}

// Queue says where a queue's rings are and where it stands: virtqueue.Config without what is always
// the same.
type Queue struct {
	Size              uint16
	Desc, Avail, Used uint64
	Base              uint16
	EventIdx          bool
	InFlight          []uint16
	// of one that starts from a record: what the record has in flight is made available anew
	Anew bool `json:",omitempty"`
}

// Region is a range of guest memory, in file File of the message. If the message has no files, File
// is the descriptor by which a worker asks for mappings, and the rest is what it must know of the
// file.
type Region struct {
	GuestAddr, Size, FileOffset uint64
	File                        int
	ReadFile                    int    `json:",omitempty"` // as File, where it is only to be read
	Piece                       uint64 `json:",omitempty"` // of its pages, or huge pages
	Sealed                      bool   `json:",omitempty"` // it can't be cut short
}

// Policy is how a VM's commands are batched and waited for.
type Policy struct {
	InlineLimit   uint32
	BatchCommands uint32
	BatchBytes    uint32
	BatchDelayUs  uint32
	SpinHostUs    uint32
	GraphReplay   bool
	MovableCode   bool
	OtherGPU      bool
	Mapping       bool
	StagingBytes  uint64
	// the host's memory that the process may make its worker take, 0 for the default
	HostMemory    uint64
	SoftWorkers   int
	SoftMemory    uint64 // of each of SoftGPUs
	SoftGPUs      int    // 0: one
	SoftLost      int    // software GPU SoftLost-1 is off the bus; 0: none is
	SoftApart     bool   // software GPUs don't reach each other's memory
	AllowPageable bool
	// the VM's GPUs as the host describes them, of which a worker takes their NVLinks; they stay
	// the same, so that policies can be compared
	GPUs *[]hostgpus.GPU `json:",omitempty"`
}

// Known are descriptions of GPUs, or none.
func (p *Policy) Known() []hostgpus.GPU {
	if p.GPUs == nil {
		return nil
	}
	return *p.GPUs
}

// Defaults of HostMemory. On a real GPU the images of libraries count, of which a framework loads
// gigabytes.
const (
	hostMemorySoft = 1 << 30
	hostMemoryCUDA = 8 << 30
)

// HostBytes is HostMemory, or the default on that GPU.
func (p *Policy) HostBytes(gpu string) uint64 {
	switch {
	case p.HostMemory != 0:
		return p.HostMemory
	case gpu == "cuda":
		return hostMemoryCUDA
	}
	return hostMemorySoft
}

func (f Files) count() int {
	if f.Memory < 0 || f.Lanes < 0 || f.Memory > maxFiles || f.Lanes > maxFiles {
		return -1
	}
	n := f.Memory + f.Lanes
	for _, b := range []bool{
		f.Kick, f.Call, f.State, f.Conn, f.Object, f.Ring, f.Wake, f.Image, f.Log,
		f.Listener,
	} {
		if b {
			n++
		}
	}
	if f.Gate {
		n += GateFiles
	}
	if f.Ledger {
		n++
	}
	return n
}

// Named is a message's files by name; -1 where there is none.
type Named struct {
	Kick, Call, State, Conn, Object, Ring, Wake, Image, Log, Listener int

	Gate   []int // none, or GateFiles
	Ledger int
	Lanes  []int
	Memory []int
}

// Name sorts the files of a received message.
func (m *Message) Name(fds []int) Named {
	n := Named{Kick: -1, Call: -1, State: -1, Conn: -1, Object: -1, Ring: -1, Wake: -1,
		Image: -1, Log: -1, Listener: -1, Ledger: -1}
	for _, f := range []struct {
		has bool
		to  *int
	}{
		{m.Files.Kick, &n.Kick}, {m.Files.Call, &n.Call}, {m.Files.State, &n.State},
		{m.Files.Conn, &n.Conn}, {m.Files.Object, &n.Object}, {m.Files.Ring, &n.Ring},
		{m.Files.Wake, &n.Wake}, {m.Files.Image, &n.Image},
		{m.Files.Log, &n.Log}, {m.Files.Listener, &n.Listener},
	} {
		if f.has {
			*f.to, fds = fds[0], fds[1:]
		}
	}
	if m.Files.Gate {
		n.Gate, fds = fds[:GateFiles], fds[GateFiles:]
	}
	if m.Files.Ledger {
		n.Ledger, fds = fds[0], fds[1:]
	}
	n.Lanes, n.Memory = fds[:m.Files.Lanes], fds[m.Files.Lanes:]
	return n
}
