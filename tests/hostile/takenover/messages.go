// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// message is a deed that sends the device process something.
func message(name string, do func(w *worker)) Deed {
	return Deed{Kind: "message", Name: name, do: func(w *worker) string { do(w); return "" }}
}

// kinds are those of all messages, whoever sends them.
var kinds = []handover.Kind{
	handover.KindWarm, handover.KindStart, handover.KindReady, handover.KindMemory,
	handover.KindDone, handover.KindStop, handover.KindStopped, handover.KindPause,
	handover.KindPaused, handover.KindResume, handover.KindCall, handover.KindPolicy,
	handover.KindAttach, handover.KindImport, handover.KindTaken, handover.KindSync,
	handover.KindSynced, handover.KindLog, handover.KindLogged, handover.KindDrain,
	handover.KindDrained, handover.KindMoveOut, handover.KindMovedOut, handover.KindMoveIn,
	handover.KindMovedIn, handover.KindGoOn, handover.KindSave, handover.KindSaved,
	handover.KindTakeOver, handover.KindStands, handover.KindOffer, handover.KindWithdraw,
	handover.KindWake, handover.KindRoom, handover.KindMover, handover.KindRelease,
	handover.KindFault, handover.KindConfined, handover.KindGuest, handover.KindShare,
	handover.KindUnshare, handover.KindSeek, handover.KindFound, handover.KindGive,
	handover.KindGiven, "", "no such kind",
}

// messages are deeds that the device process doesn't expect of a worker that serves a guest.
func messages() (list []Deed) {
	for _, k := range kinds {
		list = append(list, message(fmt.Sprintf("%q, out of turn", k), func(w *worker) {
			w.tell(k)
		}))
	}
	huge := strings.Repeat("x", 100_000)
	return append(append(list, shares()...),
		message("no JSON", func(w *worker) { _ = w.raw([]byte("{")) }),
		message("nothing", func(w *worker) { _ = w.raw(nil) }),
		message("as long as one may be", func(w *worker) { _ = w.raw(make([]byte, 1<<17)) }),
		message("longer", func(w *worker) { _ = w.raw(make([]byte, 1<<17+1)) }),
		message("nested without end", func(w *worker) {
			_ = w.raw(bytes.Repeat([]byte("["), 60_000))
		}),
		message("a number that is none", func(w *worker) {
			_ = w.raw([]byte(`{"kind":"room","bytes":1e999}`))
		}),
		message("files that it doesn't tell of", func(w *worker) {
			_ = w.raw([]byte(`{"kind":"wake"}`), w.fd, w.fd, w.fd)
		}),
		message("as many files as there can be", func(w *worker) {
			files := make([]int, 253)
			for i := range files {
				files[i] = w.files.Kick
			}
			_ = w.raw([]byte(`{"kind":"wake"}`), files...)
		}),
		message("fewer files than none", func(w *worker) {
			_ = w.raw([]byte(`{"kind":"wake","files":{"Memory":-1}}`))
		}),
		message("a long error", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindMover, Error: huge})
		}),
		message("room for everything", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindRoom, Bytes: math.MaxUint64})
		}),
		message("a fault of a GPU that there isn't", func(w *worker) {
			for _, gpu := range []int{-1, 64, math.MaxInt} {
				w.say(&handover.Message{Kind: handover.KindFault,
					Fault: &handover.Fault{GPU: gpu, Result: math.MinInt32}})
			}
		}),
		message("a fault without one", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindFault})
		}),
		message("faults without end", many(5_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindFault,
				Fault: &handover.Fault{Result: int32(i)}})
		})),
		message("wakes without end", many(5_000, func(w *worker, _ int) {
			w.tell(handover.KindWake)
		})),
		message("the mover, without end", many(2_000, func(w *worker, _ int) {
			w.tell(handover.KindMover)
		})),
		message("the mover and its release in turns", many(500, func(w *worker, _ int) {
			w.tell(handover.KindMover)
			w.tell(handover.KindRelease)
		})),
		message("offers without a file", offer(1, handover.ObjectMemory, 1<<20, -1)),
		message("an offer of a kind that there isn't", offer(1, "thing", 1<<20, -1)),
		message("offers of what is no memory", offerOf(func(w *worker) int { return w.fd })),
		message("offers of the guest's memory", offerOf(func(w *worker) int {
			return w.guest.File
		})),
		message("offers of the state page", offerOf(func(w *worker) int { return w.files.State })),
		message("offers without end", offer(5_000, handover.ObjectPool, 1, -1)),
		message("offers of more bytes than there are",
			offer(1, handover.ObjectPool, math.MaxUint64, -1)),
		message("withdrawals of what nobody offered", many(5_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindWithdraw,
				Object: &handover.Object{Kind: handover.ObjectPool, Number: uint32(i)}})
		})),
		message("one after the end", func(w *worker) {
			_ = unix.Shutdown(w.fd, unix.SHUT_WR)
			_ = w.raw([]byte(`{"kind":"wake"}`))
		}),
		message("none is read", func(w *worker) { _ = unix.Shutdown(w.fd, unix.SHUT_RD) }),
		Deed{Kind: "message", Name: "no answer to stop", Deaf: true,
			do: func(*worker) string { return "" }},
		Deed{Kind: "message", Name: "the end of the connection, and it lives on", Deaf: true,
			do: func(w *worker) string { _ = w.control.Close(); return "" }},
	)
}

// many does something that many times.
func many(n int, do func(w *worker, i int)) func(*worker) {
	return func(w *worker) {
		for i := range n {
			do(w, i)
		}
	}
}

func offer(n int, kind handover.ObjectKind, size uint64, file int) func(*worker) {
	return many(n, func(w *worker, i int) {
		m := &handover.Message{Kind: handover.KindOffer, Object: &handover.Object{Kind: kind,
			Number: uint32(i), Bytes: size, GPU: math.MaxUint64, Token: uint64(i)}}
		if file < 0 {
			w.say(m)
			return
		}
		m.Files.Object = true
		w.say(m, file)
	})
}

func offerOf(file func(w *worker) int) func(*worker) {
	return func(w *worker) { offer(300, handover.ObjectMemory, 1<<20, file(w))(w) }
}

// early are deeds of a worker that has just been told to start.
func early() (list []Deed) {
	for name, do := range map[string]func(w *worker){
		"it ends": func(*worker) {},
		"it can't, for a long reason": func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindReady,
				Error: strings.Repeat("\x1b[2J\n", 10_000)})
		},
		"it is stopped": func(w *worker) { w.tell(handover.KindStopped) },
		"it is drained": func(w *worker) { w.tell(handover.KindDrained) },
		"no JSON":       func(w *worker) { _ = w.raw([]byte("ready")) },
		"ready, with files": func(w *worker) {
			_ = w.raw([]byte(`{"kind":"ready","files":{"Memory":3}}`), w.fd, w.fd, w.fd)
		},
		"offers": func(w *worker) { offer(500, handover.ObjectPool, 1, -1)(w) },
		"ready again and again": func(w *worker) {
			for range 1000 {
				w.tell(handover.KindReady)
			}
		},
	} {
		list = append(list, Deed{Kind: "start", Name: name, Early: true,
			do: func(w *worker) string { do(w); return "" }})
	}
	sortByName(list)
	return list
}

// shares are words about what workers share, which others don't notice.
func shares() []Deed {
	named := func(i int) []handover.ShareName {
		return []handover.ShareName{{Kind: "memory",
			Secret: [handover.SecretBytes]byte{2, byte(i), byte(i >> 8), byte(i >> 16)}}}
	}
	return []Deed{
		message("shares without end", many(20_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindShare, Shared: named(i)})
		})),
		message("questions without end", many(5_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindSeek, Turn: uint64(i), Shared: named(i)})
		})),
		message("questions that it doesn't answer", many(5_000, func(w *worker, i int) {
			if i == 0 {
				w.say(&handover.Message{Kind: handover.KindShare, Shared: named(0)})
			}
			w.say(&handover.Message{Kind: handover.KindSeek, Turn: uint64(i), Shared: named(0)})
		})),
		message("answers that nobody waits for", many(2_000, func(w *worker, i int) {
			w.say(&handover.Message{Kind: handover.KindGiven, Turn: uint64(i),
				Files: handover.Files{Object: true}}, w.files.Kick)
		})),
		message("an end of what it never began", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindUnshare, Shared: named(7)})
			w.say(&handover.Message{Kind: handover.KindShare, Over: true})
		}),
		message("no question at all, and the longest one", func(w *worker) {
			w.say(&handover.Message{Kind: handover.KindSeek})
			w.say(&handover.Message{Kind: handover.KindSeek, Turn: math.MaxUint64,
				Shared: make([]handover.ShareName, 1000)})
		}),
	}
}
