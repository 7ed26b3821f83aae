// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Kind names a message.
type Kind string

// Messages of the device process, and the answers to them.
const (
	KindWarm    Kind = "warm"    // to a worker, before start: initialise the GPU
	KindStart   Kind = "start"   // to a worker: serve this queue
	KindGuest   Kind = "guest"   // the guest's memory, for a worker that has said KindConfined
	KindReady   Kind = "ready"   // the worker is warm, or serves it
	KindMemory  Kind = "memory"  // guest memory changed
	KindDone    Kind = "done"    // the worker (or mover) uses the new memory only
	KindStop    Kind = "stop"    // let go of the queue and end
	KindStopped Kind = "stopped" // nothing of the guest is in use any more
	KindPause   Kind = "pause"   // let go of the queue when what was begun has ended, and live on
	// nothing of the guest is in use, and nothing of the worker's is under way
	KindPaused Kind = "paused"
	KindResume Kind = "resume" // go on with this queue, and with this memory if there is some
	KindCall   Kind = "call"   // a new call descriptor
	KindPolicy Kind = "policy" // new policies
	KindAttach Kind = "attach" // to the mover: one more worker, on this connection
	KindImport Kind = "import" // to a worker: an object that another one has offered, or itself
	KindTaken  Kind = "taken"  // the worker has the object
	KindSync   Kind = "sync"   // to a worker: give a sign
	KindSynced Kind = "synced" // what the worker said before has arrived
	KindLog    Kind = "log"    // mark in this log, or in none, what is written from now on
	KindLogged Kind = "logged" // all writes that end from now on are

	// Device memory is moved out to the host's in this order, and in again. A worker that was told
	// to drain begins nothing until it is told to go on.
	KindDrain    Kind = "drain"    // to a worker: begin nothing, and end what was begun
	KindDrained  Kind = "drained"  // it has ended, with so many bytes that could move; or goes on
	KindMoveOut  Kind = "moveout"  // move them to a new image, or to the one that is there
	KindMovedOut Kind = "movedout" // all are; with an error none is
	KindMoveIn   Kind = "movein"   // move them in again
	KindMovedIn  Kind = "movedin"  // all are; with an error none is
	KindGoOn     Kind = "goon"     // go on, from where it was drained
	KindForget   Kind = "forget"   // keep no image any more; there is no answer

	// A worker that is drained can be saved, whether its memory is out or in. Another worker can
	// start from what it wrote.
	KindSave  Kind = "save"  // write all that the program has to this stream
	KindSaved Kind = "saved" // it has; with an error it hasn't
	// All programs have begun from what was saved. To each worker: take what the others offer.
	KindJoin   Kind = "join"
	KindJoined Kind = "joined" // it has; with an error it hasn't

	// Whether a program could be saved is asked while it runs.
	KindMovable Kind = "movable" // to a worker: say why the program can't be saved
	KindMoves   Kind = "moves"   // for this reason; or for none, apart from what is under way

	// Device memory is copied while the program runs, so that a save needs to write only what has
	// changed since.
	KindPrecopy   Kind = "precopy"   // copy some to the buffer; begin anew if one comes along
	KindPrecopied Kind = "precopied" // these sectors; with an error none

	// Another device process has the connection now. Requests of the one before that it hasn't seen
	// answered are void.
	KindTakeOver Kind = "takeover" // say where you stand
	KindStands   Kind = "stands"   // so, as far as all is obeyed that came before
)

// Messages of a worker that answer nothing.
const (
	KindOffer    Kind = "offer"    // an object that others may have
	KindWithdraw Kind = "withdraw" // it is gone: who has it already keeps it
	KindWake     Kind = "wake"     // it was drained, and its program has work
	// there is no room for so many bytes more: the answer, of the same kind, says to try again, or
	// with an error not to
	KindRoom Kind = "room"
	// a copy needs the mover: the answer, of the same kind, is a connection to it, or why there is
	// none
	KindMover Kind = "mover"
	// to a worker: give up the connection to the mover, if no copy needs it; and that it has
	KindRelease Kind = "release"
	KindFault   Kind = "fault" // a GPU answers what says that it is broken, or gone
	// What it shares with others of its VM goes through the device process.
	KindShare   Kind = "share"   // others may ask for these; and these are all
	KindShared  Kind = "shared"  // to a worker, in answer if it has a number: they may from now on
	KindUnshare Kind = "unshare" // nobody may any more
	KindSeek    Kind = "seek"    // who shares this?
	KindFound   Kind = "found"   // to a worker, in answer: it, with its file; or nobody does
	KindGive    Kind = "give"    // to a worker: what it shares so is asked for
	KindGiven   Kind = "given"   // in answer: it, with its file
	// it has confined itself, and what it maps of the guest's memory can be decided on; with an
	// error: it can't. The answer is KindGuest, or KindStart to a worker that is ahead of use
	KindConfined Kind = "confined"
)

// Unasked says whether a message answers nothing.
func (k Kind) Unasked() bool {
	switch k {
	case KindOffer, KindWithdraw, KindWake, KindRoom, KindMover, KindRelease, KindFault,
		KindConfined, KindShare, KindUnshare, KindSeek, KindGiven:
		return true
	}
	return false
}

// cargo is what messages of a kind may have besides it: fields, and files.
type cargo struct{ fields, files []string }

// with makes a cargo out of names, by spaces apart, of fields of Message and of Files.
func with(fields, files string) cargo {
	return cargo{strings.Fields(fields), strings.Fields(files)}
}

// cargoes say what each kind of message may have. Receive refuses messages with anything else, or
// of another kind.
var cargoes = map[Kind]cargo{
	KindWarm: with("GPU Home Policy Entry Asks", "Ledger"),
	KindStart: with("GPU Channel PID Comm Entry Held Saved Filed Asks Queue Memory Log Policy",
		"Kick Call State Image Log Gate Ledger Lanes Memory"),
	KindGuest:   with("Memory", "Memory"),
	KindReady:   with("Error", ""),
	KindMemory:  with("Memory", "Memory"),
	KindDone:    with("Error", ""),
	KindStop:    {},
	KindStopped: {},
	KindPause:   with("Grace", ""),
	KindPaused:  {},
	KindResume:  with("Queue Memory", "Kick Call Memory"),
	KindCall:    with("", "Call"),
	KindPolicy:  with("Policy", ""),
	KindAttach:  with("Channel Vouchers", "Conn Ring Wake"),
	KindImport:  with("Object", "Object"),
	KindTaken:   with("Error", ""),
	KindSync:    {},
	KindSynced:  with("Error", ""),
	KindLog:     with("Log", "Log"),
	KindLogged:  with("Error", ""),

	KindDrain:    with("Grace Turn Whole", ""),
	KindDrained:  with("Error Turn Bytes Busy", ""),
	KindMoveOut:  with("Bytes Keep", ""),
	KindMovedOut: with("Error Keep Unchanged", ""),
	KindMoveIn:   {},
	KindMovedIn:  with("Error", ""),
	KindGoOn:     {},
	KindForget:   {},

	KindSave:    with("Ahead Filed", "Lanes"),
	KindSaved:   with("Error", ""),
	KindJoin:    {},
	KindJoined:  with("Error", ""),
	KindMovable: with("Turn", ""),
	KindMoves:   with("Turn Reason", ""),

	KindPrecopy:   with("Over Filed", "Object"),
	KindPrecopied: with("Error Sectors Over", ""),

	KindTakeOver: with("Turn", ""),
	KindStands:   with("Turn Standing", ""),

	KindOffer:    with("Object", "Object"),
	KindWithdraw: with("Object", ""),
	KindWake:     {},
	KindRoom:     with("Error Bytes", ""),
	KindMover:    with("Error", "Conn Ring Wake"),
	KindRelease:  with("Error", ""),
	KindFault:    with("Fault", ""),
	KindConfined: with("Error", "Listener"),

	KindShare:   with("Turn Shared Over", ""),
	KindShared:  with("Turn", ""),
	KindUnshare: with("Shared", ""),
	KindSeek:    with("Turn Shared", ""),
	KindFound:   with("Error Turn Nobody Text", "Object"),
	KindGive:    with("Turn Shared", ""),
	KindGiven:   with("Error Turn Nobody Text", "Object"),
}

// ofAll are fields that messages of all kinds have.
var ofAll = []string{"Kind", "Files"}

// check refuses a message of an unknown kind, or with what its kind doesn't have.
func (m *Message) check() error {
	may, ok := cargoes[m.Kind]
	if !ok {
		return fmt.Errorf("there is no message %q", m.Kind)
	}
	if name := beyond(reflect.ValueOf(m).Elem(), slices.Concat(may.fields, ofAll)); name != "" {
		return fmt.Errorf("it has no %s", name)
	}
	if name := beyond(reflect.ValueOf(&m.Files).Elem(), may.files); name != "" {
		return fmt.Errorf("it has no file %s", name)
	}
	return nil
}

// beyond names a field of a structure that is set and not among those that may be; "": none is.
func beyond(s reflect.Value, may []string) string {
	for i := range s.NumField() {
		if name := s.Type().Field(i).Name; !s.Field(i).IsZero() && !slices.Contains(may, name) {
			return name
		}
	}
	return ""
}
