// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"fmt"

	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// Request names a message of the front end.
type Request uint32

// Requests that the session serves (vhost-user, "Front-end message types").
const (
	GetFeatures         Request = 1
	SetFeatures         Request = 2
	SetOwner            Request = 3
	ResetOwner          Request = 4
	SetMemTable         Request = 5
	SetLogBase          Request = 6
	SetLogFD            Request = 7
	SetVringNum         Request = 8
	SetVringAddr        Request = 9
	SetVringBase        Request = 10
	GetVringBase        Request = 11
	SetVringKick        Request = 12
	SetVringCall        Request = 13
	SetVringErr         Request = 14
	GetProtocolFeatures Request = 15
	SetProtocolFeatures Request = 16
	GetQueueNum         Request = 17
	SetVringEnable      Request = 18
	SetBackendReqFD     Request = 21
	GetConfig           Request = 24
	SetConfig           Request = 25
	GetInFlightFD       Request = 31
	SetInFlightFD       Request = 32
	ResetDevice         Request = 34
	GetMaxMemSlots      Request = 36
	AddMemReg           Request = 37
	RemMemReg           Request = 38
	SetDeviceStateFD    Request = 42
	CheckDeviceState    Request = 43
)

// BackendConfigChange is the one request that the back end sends ("Back-end message types").
const BackendConfigChange = 2

// Flags of a message header.
const (
	FlagVersion     = 1      // protocol version, in the two lowest bits
	FlagVersionMask = 3      //
	FlagReply       = 1 << 2 // the message answers another
	FlagNeedReply   = 1 << 3 // the sender wants an answer (REPLY_ACK)
)

// Sizes of the protocol.
const (
	HeaderSize = 12 // u32 request, u32 flags, u32 size
	MaxFDs     = 8  // descriptors in one message

	// MaxQueues follows from the eight bits that name a ring in SET_VRING_KICK.
	MaxQueues = inflight.MaxQueues

	// MaxMemSlots is how many regions ADD_MEM_REG may make: what QEMU wants for virtio-mem.
	MaxMemSlots = 509

	// MaxConfigSize bounds one access to the config space.
	MaxConfigSize = 4096

	// maxPayload is the longest payload that is read, even if only to refuse it. A longer one can't
	// be right, so the stream is given up.
	maxPayload = 1 << 16

	regionSize   = 32 // u64 guest address, size, user address, mmap offset
	configHeader = 12 // u32 offset, size, flags
)

// Message is one message of either direction.
type Message struct {
	Request Request
	Flags   uint32
	Payload []byte
	FDs     []*FD // owned by the message
}

// takeFD gives the first descriptor away.
func (m *Message) takeFD() *FD {
	if len(m.FDs) == 0 {
		return nil
	}
	f := m.FDs[0]
	m.FDs = m.FDs[1:]
	return f
}

// takeFDs gives all descriptors away.
func (m *Message) takeFDs() []*FD {
	fds := m.FDs
	m.FDs = nil
	return fds
}

// rule says what a request must look like, and whether it has an answer.
type rule struct {
	name     string
	min, max int    // size of the payload
	maxFDs   int    // how many descriptors it may carry
	answers  bool   // has an answer of its own, rather than an acknowledgement
	needs    uint64 // protocol features that must have been negotiated
}

// rules is the single list of what the session understands.
var rules = map[Request]rule{
	GetFeatures:         {"GET_FEATURES", 0, 0, 0, true, 0},
	SetFeatures:         {"SET_FEATURES", 8, 8, 0, false, 0},
	SetOwner:            {"SET_OWNER", 0, 0, 0, false, 0},
	ResetOwner:          {"RESET_OWNER", 0, 0, 0, false, 0},
	SetMemTable:         {"SET_MEM_TABLE", 8, 8 + MaxFDs*regionSize, MaxFDs, false, 0},
	SetLogBase:          {"SET_LOG_BASE", 16, 16, 1, true, ProtocolLogShmFD},
	SetLogFD:            {"SET_LOG_FD", 0, 8, 1, false, ProtocolLogShmFD},
	SetVringNum:         {"SET_VRING_NUM", 8, 8, 0, false, 0},
	SetVringAddr:        {"SET_VRING_ADDR", 40, 40, 0, false, 0},
	SetVringBase:        {"SET_VRING_BASE", 8, 8, 0, false, 0},
	GetVringBase:        {"GET_VRING_BASE", 8, 8, 0, true, 0},
	SetVringKick:        {"SET_VRING_KICK", 8, 8, 1, false, 0},
	SetVringCall:        {"SET_VRING_CALL", 8, 8, 1, false, 0},
	SetVringErr:         {"SET_VRING_ERR", 8, 8, 1, false, 0},
	GetProtocolFeatures: {"GET_PROTOCOL_FEATURES", 0, 0, 0, true, 0},
	SetProtocolFeatures: {"SET_PROTOCOL_FEATURES", 8, 8, 0, false, 0},
	GetQueueNum:         {"GET_QUEUE_NUM", 0, 0, 0, true, ProtocolMQ},
	SetVringEnable:      {"SET_VRING_ENABLE", 8, 8, 0, false, 0},
	SetBackendReqFD:     {"SET_BACKEND_REQ_FD", 0, 8, 1, false, ProtocolBackendReq},
	GetConfig: {"GET_CONFIG", configHeader, configHeader + MaxConfigSize, 0, true,
		ProtocolConfig},
	SetConfig: {"SET_CONFIG", configHeader, configHeader + MaxConfigSize, 0, false,
		ProtocolConfig},
	GetInFlightFD: {"GET_INFLIGHT_FD", inFlightMin, inFlightMax, 0, true, ProtocolInFlight},
	SetInFlightFD: {"SET_INFLIGHT_FD", inFlightMin, inFlightMax, 1, false,
		ProtocolInFlight},
	ResetDevice:      {"RESET_DEVICE", 0, 0, 0, false, ProtocolResetDevice},
	GetMaxMemSlots:   {"GET_MAX_MEM_SLOTS", 0, 8, 0, true, ProtocolMemSlots},
	AddMemReg:        {"ADD_MEM_REG", 40, 40, 1, false, ProtocolMemSlots},
	RemMemReg:        {"REM_MEM_REG", 40, 40, 1, false, ProtocolMemSlots},
	SetDeviceStateFD: {"SET_DEVICE_STATE_FD", 8, 8, 1, true, ProtocolDeviceState},
	CheckDeviceState: {"CHECK_DEVICE_STATE", 0, 8, 0, true, ProtocolDeviceState},
}

// refusals are the answers to refused messages whose answer has a form for a refusal. All others
// that have an answer get an empty one.
var refusals = map[Request]uint64{
	SetLogBase:       1,
	SetDeviceStateFD: noFD | 1,
	CheckDeviceState: 1,
}

// String returns the name that the specification has for the request.
func (r Request) String() string {
	if rule, ok := rules[r]; ok {
		return rule.name
	}
	return fmt.Sprintf("request %d", uint32(r))
}

// check checks a message by the rule for its request.
func (r rule) check(m *Message, negotiated uint64) error {
	switch {
	case m.Flags&FlagReply != 0:
		return fmt.Errorf("%w: the reply flag is set", ErrProtocol)
	case negotiated&r.needs != r.needs:
		return fmt.Errorf("%w: protocol feature %#x isn't negotiated", ErrProtocol, r.needs)
	case len(m.Payload) < r.min || len(m.Payload) > r.max:
		return fmt.Errorf("%w: payload of %d bytes, want %d to %d", ErrProtocol, len(m.Payload),
			r.min, r.max)
	case len(m.FDs) > r.maxFDs:
		return fmt.Errorf("%w: %d descriptors, at most %d are allowed", ErrProtocol, len(m.FDs),
			r.maxFDs)
	}
	return nil
}
