// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/virtqueue"
)

// handlers has one entry for each of the rules. They are two tables because a handler may print
// the name of a request.
var handlers = map[Request]func(*Session, *Message) ([]byte, error){
	GetFeatures:         (*Session).getFeatures,
	SetFeatures:         (*Session).setFeatures,
	SetOwner:            (*Session).setOwner,
	ResetOwner:          (*Session).resetOwner,
	SetMemTable:         (*Session).setMemTable,
	SetLogBase:          (*Session).setLogBase,
	SetLogFD:            (*Session).setLogFD,
	SetVringNum:         (*Session).setVringNum,
	SetVringAddr:        (*Session).setVringAddr,
	SetVringBase:        (*Session).setVringBase,
	GetVringBase:        (*Session).getVringBase,
	SetVringKick:        (*Session).setVringKick,
	SetVringCall:        (*Session).setVringCall,
	SetVringErr:         (*Session).setVringErr,
	GetProtocolFeatures: (*Session).getProtocolFeatures,
	SetProtocolFeatures: (*Session).setProtocolFeatures,
	GetQueueNum:         (*Session).getQueueNum,
	SetVringEnable:      (*Session).setVringEnable,
	SetBackendReqFD:     (*Session).setBackendReqFD,
	GetConfig:           (*Session).getConfig,
	SetConfig:           (*Session).setConfig,
	GetInFlightFD:       (*Session).getInFlightFD,
	SetInFlightFD:       (*Session).setInFlightFD,
	ResetDevice:         (*Session).resetDevice,
	GetMaxMemSlots:      (*Session).getMaxMemSlots,
	AddMemReg:           (*Session).addMemReg,
	RemMemReg:           (*Session).remMemReg,
	SetDeviceStateFD:    (*Session).setDeviceStateFD,
	CheckDeviceState:    (*Session).checkDeviceState,
}

func (s *Session) getFeatures(*Message) ([]byte, error)         { return word(s.offered), nil }
func (s *Session) getProtocolFeatures(*Message) ([]byte, error) { return word(s.protocols), nil }
func (s *Session) getQueueNum(*Message) ([]byte, error) {
	return word(uint64(len(s.rings))), nil
}
func (s *Session) getMaxMemSlots(*Message) ([]byte, error) { return word(MaxMemSlots), nil }
func (s *Session) setOwner(*Message) ([]byte, error)       { return nil, nil }

func (s *Session) setFeatures(m *Message) ([]byte, error) {
	features, err := decodeWord(m.Payload)
	if err != nil {
		return nil, err
	}
	if features&^s.offered != 0 {
		return nil, fmt.Errorf("%w: features %#x weren't offered", ErrProtocol, features&^s.offered)
	}
	for i := range s.rings {
		switch {
		case !s.rings[i].running:
		case (features^s.features)&^FeatureLogAll == 0:
			return nil, s.setLogAll(features)
		default:
			return nil, fmt.Errorf("change features: queue %d: %w", i, ErrRunning)
		}
	}
	if err := s.dev.SetFeatures(features &^ transportFeatures); err != nil {
		return nil, fmt.Errorf("set features: %w", err)
	}
	s.features = features&^FeatureLogAll | s.features&FeatureLogAll
	err = s.setLogAll(features)
	s.settleAll()
	return nil, err
}

func (s *Session) setProtocolFeatures(m *Message) ([]byte, error) {
	features, err := decodeWord(m.Payload)
	if err != nil {
		return nil, err
	}
	if extra := features &^ s.protocols; extra != 0 {
		return nil, fmt.Errorf("%w: protocol features %#x weren't offered", ErrProtocol, extra)
	}
	s.protocol = features
	return nil, nil
}

// resetOwner disables all rings, as the specification asks for this deprecated message.
func (s *Session) resetOwner(*Message) ([]byte, error) {
	return nil, s.disableAll()
}

// disableAll stops all rings until the front end sets them up again.
func (s *Session) disableAll() error {
	err := s.stopAll()
	for i := range s.rings {
		r := &s.rings[i]
		r.kicked, r.enabled = false, false
	}
	return err
}

func (s *Session) resetDevice(*Message) ([]byte, error) {
	s.dev.Abandon()
	err := s.disableAll()
	for i := range s.rings {
		r := &s.rings[i]
		_ = r.kick.Close()
		*r = ring{call: r.call, err: r.err}
	}
	s.features = 0
	err = errors.Join(err, s.setLogAll(0), s.keepRecord(nil))
	s.dev.Reset()
	return nil, err
}

func (s *Session) getConfig(m *Message) ([]byte, error) {
	c, err := decodeConfig(m.Payload)
	if err != nil {
		return nil, err
	}
	data, err := s.dev.ReadConfig(c.Offset, uint32(len(c.Data)))
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	reply := make([]byte, len(c.Data))
	copy(reply, data)
	return ConfigAccess{c.Offset, c.Flags, reply}.AppendTo(nil), nil
}

func (s *Session) setConfig(m *Message) ([]byte, error) {
	c, err := decodeConfig(m.Payload)
	if err != nil {
		return nil, err
	}
	if err := s.dev.WriteConfig(c.Offset, c.Data); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return nil, nil
}

// ringState reads a payload that names a ring and a number.
func (s *Session) ringState(m *Message) (int, *ring, uint32, error) {
	v, err := decodeState(m.Payload)
	if err != nil {
		return 0, nil, 0, err
	}
	r, err := s.ring(uint64(v.Index))
	return int(v.Index), r, v.Num, err
}

// ring looks up an index, all 32 bits of it.
func (s *Session) ring(index uint64) (*ring, error) {
	if index >= uint64(len(s.rings)) {
		return nil, fmt.Errorf("%w: queue %d of %d", ErrProtocol, index, len(s.rings))
	}
	return &s.rings[index], nil
}

func (s *Session) setVringNum(m *Message) ([]byte, error) {
	i, r, num, err := s.ringState(m)
	switch {
	case err != nil:
		return nil, err
	case num == 0 || num > virtqueue.MaxSize || num&(num-1) != 0:
		return nil, fmt.Errorf("%w: queue of %d", ErrProtocol, num)
	case r.running && uint32(r.size) != num:
		return nil, fmt.Errorf("change size: queue %d: %w", i, ErrRunning)
	}
	r.size = uint16(num)
	return nil, s.settle(i)
}

func (s *Session) setVringBase(m *Message) ([]byte, error) {
	i, r, num, err := s.ringState(m)
	switch {
	case err != nil:
		return nil, err
	case num > 0xffff:
		return nil, fmt.Errorf("%w: avail index %d", ErrProtocol, num)
	case r.running:
		return nil, fmt.Errorf("change base: queue %d: %w", i, ErrRunning)
	}
	r.base = uint16(num)
	return nil, nil
}

// checkAddr refuses flags of a ring's addresses. The only flag there is asks for a log of dirty
// pages.
func (s *Session) checkAddr(a VringAddr) error {
	if a.Flags&^VringLog != 0 || a.Flags != 0 && s.offered&FeatureLogAll == 0 {
		return fmt.Errorf("%w: ring flags %#x", ErrProtocol, a.Flags)
	}
	return nil
}

func (s *Session) setVringAddr(m *Message) ([]byte, error) {
	a, err := decodeAddr(m.Payload)
	if err != nil {
		return nil, err
	}
	r, err := s.ring(uint64(a.Index))
	if err != nil {
		return nil, err
	}
	if err := s.checkAddr(a); err != nil {
		return nil, err
	}
	if a.Flags == 0 {
		a.Log = 0 // it means nothing: UML sends all ones
	}
	if r.running {
		if !r.addr.sameRings(a) {
			return nil, fmt.Errorf("change addresses: queue %d: %w", a.Index, ErrRunning)
		}
		if err := checkUsedLog(a, r.used); err != nil {
			return nil, err
		}
	}
	r.addr, r.hasAddr = a, true
	return nil, s.settle(int(a.Index))
}

// getVringBase stops the ring. Only another kick message lets it run again.
func (s *Session) getVringBase(m *Message) ([]byte, error) {
	i, r, _, err := s.ringState(m)
	if err != nil {
		return nil, err
	}
	r.kicked = false
	if err := s.settle(i); err != nil {
		s.log.WithError(err).Error("the queue may have lost requests")
	}
	_ = r.kick.Close()
	r.kick = nil
	return VringState{uint32(i), uint32(r.base)}.AppendTo(nil), nil
}

func (s *Session) setVringEnable(m *Message) ([]byte, error) {
	i, r, num, err := s.ringState(m)
	if err != nil {
		return nil, err
	}
	if num > 1 {
		return nil, fmt.Errorf("%w: enable %d", ErrProtocol, num)
	}
	r.enabled, r.hasEnabled = num == 1, true
	return nil, s.settle(i)
}
