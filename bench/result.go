package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"
)

// figures are all that was measured, as they are kept.
type figures struct {
	Machine string   // system, processor and how many, and Go's version
	Scenes  []result // in the order of the plan
}

// A result is what one scene has shown.
type result struct {
	Scene   string
	Store   string
	Body    string
	Setting string `json:",omitempty"`
	N       int
	When    time.Time
	Window  float64 // for how many seconds a peer ran in a round
	Load    float64 // of the machine, the average of the minute before the end
	Peers   []peerResult
}

// A peerResult is what one peer has shown.
type peerResult struct {
	Name string
	Laps []lap
	Wire *wireCount `json:",omitempty"`
}

// A lap is what was measured in one round. Amounts are of one acquisition.
type lap struct {
	Rate           float64 // acquisitions a second, by all contenders together
	Client, Server float64 // processor time in microseconds; 0 if it is not known
	Objects, Bytes float64 `json:",omitempty"` // allocated in this process
	Jain           float64 // how evenly the acquisitions are spread
	Failed         int64   `json:",omitempty"` // acquisitions
}

// A wireCount is what one acquisition sends and receives.
type wireCount struct {
	Requests, Replies float64 // messages
	Sent, Received    float64 // bytes
	Connections       float64 `json:",omitempty"` // that are open in the end, for each contender
}

// median returns the median over the rounds of what a lap shows.
func (p peerResult) median(of func(lap) float64) float64 {
	var list []float64
	for _, l := range p.Laps {
		list = append(list, of(l))
	}
	return median(list)
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

func (p peerResult) rate() float64 { return p.median(func(l lap) float64 { return l.Rate }) }

// times returns how often p acquires while other acquires once: the median of the rounds' ratios.
func (p peerResult) times(other peerResult) float64 {
	var list []float64
	for i := range min(len(p.Laps), len(other.Laps)) {
		if other.Laps[i].Rate > 0 {
			list = append(list, p.Laps[i].Rate/other.Laps[i].Rate)
		}
	}
	return median(list)
}

// find returns the result of a peer; false if there is none.
func (r result) find(peer string) (peerResult, bool) {
	i := slices.IndexFunc(r.Peers, func(p peerResult) bool { return p.Name == peer })
	if i < 0 {
		return peerResult{}, false
	}
	return r.Peers[i], true
}

// load reads the figures that are kept; none if there is no file.
func loadFigures(file string) (f figures, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return figures{}, nil
	}
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

func (f figures) save(file string) error {
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// add puts a result in the place of an earlier one of the same scene, in the order of the plan. A scene that is no longer in the
// plan is dropped.
func (f *figures) add(r result, scenes []scene) {
	f.Machine = machine()
	old := append(slices.Clone(f.Scenes), r)
	f.Scenes = nil
	for _, s := range scenes {
		for _, r := range slices.Backward(old) {
			if r.Scene == s.name() {
				f.Scenes = append(f.Scenes, r)
				break
			}
		}
	}
}

func machine() string {
	return runtime.GOOS + "/" + runtime.GOARCH + ", " + plural(runtime.NumCPU(), "processor") + ", " + runtime.Version()
}
