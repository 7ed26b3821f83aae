// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	sizes "github.com/paracuda/paracuda/gpubackend/size"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// The kinds of values.

func number(least, most uint64, field func(*Settings) *uint32) reading {
	return reading{
		set: func(s *Settings, v string) error {
			n, err := strconv.ParseUint(v, 10, 32)
			if err != nil || n < least || n > most {
				return fmt.Errorf("want a number from %d to %d", least, most)
			}
			*field(s) = uint32(n)
			return nil
		},
		get: func(s *Settings) string { return fmt.Sprint(*field(s)) },
	}
}

func size(least, most uint64, field func(*Settings) *uint32) reading {
	return reading{
		set: func(s *Settings, v string) error {
			n, err := sizes.Parse(v)
			if err != nil || n < least || n > most {
				return fmt.Errorf("want a size from %d to %d bytes, like 64K or 8M", least, most)
			}
			*field(s) = uint32(n)
			return nil
		},
		get: func(s *Settings) string { return sizes.Format(uint64(*field(s))) },
	}
}

func size64(least, most uint64, field func(*Settings) *uint64) reading {
	return reading{
		set: func(s *Settings, v string) error {
			n, err := sizes.Parse(v)
			if err != nil || n < least || n > most {
				return fmt.Errorf("want a size from %d bytes on, like 512M or 8G", least)
			}
			*field(s) = n
			return nil
		},
		get: func(s *Settings) string { return sizes.Format(*field(s)) },
	}
}

// parseTime says whether a time lies within bounds.
func parseTime(v string, least, most time.Duration) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(v)
	return d, err == nil && least <= d && d <= most
}

func duration(field func(*Settings) *uint32) reading {
	return reading{
		set: func(s *Settings, v string) error {
			d, ok := parseTime(v, 0, time.Second)
			if !ok {
				return errors.New("want a time from 0 to 1s, like 50us")
			}
			*field(s) = uint32(d.Microseconds())
			return nil
		},
		get: func(s *Settings) string { return fmt.Sprintf("%dus", *field(s)) },
	}
}

func flag(bit uint32) reading {
	return reading{
		set: func(s *Settings, v string) error {
			on, err := onOff(v)
			if s.Space.Flags &^= bit; on {
				s.Space.Flags |= bit
			}
			return err
		},
		get: func(s *Settings) string { return sayOnOff(s.Space.Flags&bit != 0) },
	}
}

func setWarm(s *Settings, v string) error {
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > wire.MaxChannels {
		return fmt.Errorf("want a number from 0 to %d", wire.MaxChannels)
	}
	s.WarmWorkers = int(n)
	return nil
}

// getWarm leaves the default out, which depends on the GPU.
func getWarm(s *Settings) string {
	if s.WarmWorkers == warmDefault {
		return ""
	}
	return fmt.Sprint(s.WarmWorkers)
}

// maxIdleTime is far longer than anybody needs.
const maxIdleTime = 24 * time.Hour

// never is the value of a time that doesn't end.
const never = "never"

func setIdle(s *Settings, v string) error {
	if v == never {
		s.IdleTime = 0
		return nil
	}
	d, ok := parseTime(v, time.Millisecond, maxIdleTime)
	if !ok {
		return fmt.Errorf("want a time from 1ms to 24h, like 30s, or %s", never)
	}
	s.IdleTime = d
	return nil
}

func getIdle(s *Settings) string {
	if s.IdleTime == 0 {
		return never
	}
	return s.IdleTime.String()
}

// minHostMemory is enough for programs that do little.
const minHostMemory = 64 << 20

func setHostMemory(s *Settings, v string) error {
	n, err := sizes.Parse(v)
	if err != nil || n != 0 && n < minHostMemory {
		return fmt.Errorf("want 0 or a size from %d bytes on, like 512M or 8G", minHostMemory)
	}
	s.Policy.HostMemory = n
	return nil
}

func getHostMemory(s *Settings) string { return sizes.Format(s.Policy.HostMemory) }

func setGrace(s *Settings, v string) error {
	d, ok := parseTime(v, minStopGrace, maxStopGrace)
	if !ok {
		return fmt.Errorf("want a time from %v to %v, like 5s", minStopGrace, maxStopGrace)
	}
	s.StopGrace = d
	return nil
}

func getGrace(s *Settings) string { return s.StopGrace.String() }

func setPageable(s *Settings, v string) (err error) {
	s.Policy.AllowPageable, err = onOff(v)
	return err
}

func getPageable(s *Settings) string { return sayOnOff(s.Policy.AllowPageable) }

func setMovableCode(s *Settings, v string) (err error) {
	s.Policy.MovableCode, err = onOff(v)
	return err
}

func setOtherGPU(s *Settings, v string) (err error) {
	s.Policy.OtherGPU, err = onOff(v)
	return err
}

func getOtherGPU(s *Settings) string { return sayOnOff(s.Policy.OtherGPU) }

func getMovableCode(s *Settings) string { return sayOnOff(s.Policy.MovableCode) }

func sayOnOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func setMode(s *Settings, v string) error {
	if err := policy.CheckMode(v); err != nil {
		return err
	}
	s.Swap = v == policy.ModeSwap
	return nil
}

func getMode(s *Settings) string {
	if s.Swap {
		return policy.ModeSwap
	}
	return policy.ModeOff
}

func setExclusive(s *Settings, v string) (err error) {
	s.Exclusive, err = onOff(v)
	return err
}

func getExclusive(s *Settings) string { return sayOnOff(s.Exclusive) }

func setSoftLost(s *Settings, v string) error {
	if v == policy.Off {
		s.Policy.SoftLost = 0
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil || n >= hostgpus.MostSoft {
		return fmt.Errorf("want off, or the number of a software GPU, 0 to %d", hostgpus.MostSoft-1)
	}
	s.Policy.SoftLost = int(n) + 1
	return nil
}

func getSoftLost(s *Settings) string {
	if s.Policy.SoftLost == 0 {
		return policy.Off
	}
	return strconv.Itoa(s.Policy.SoftLost - 1)
}

func setSoftPeers(s *Settings, v string) error {
	reach, err := onOff(v)
	s.Policy.SoftApart = err == nil && !reach
	return err
}

func getSoftPeers(s *Settings) string { return sayOnOff(!s.Policy.SoftApart) }
