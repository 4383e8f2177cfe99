package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A plot is one picture: lines over logarithmic axes, each labelled at its end.
type plot struct {
	title, x, y string
	lines       []line
}

// A line has its points in ascending order of x.
type line struct {
	name   string
	points []point
	main   bool // it is drawn thicker
}

type point struct{ x, y float64 }

const (
	plotWidth, plotHeight   = 800, 420
	plotLeft, plotRight     = 76, 256 // the right has room for the labels of lines
	plotTop, plotBottom     = 56, 56
	labelHeight             = 17
	innerWidth, innerHeight = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
)

// The colours of lines are told apart by people who see few colours, on white and on black.
var colours = []string{"#2f81f7", "#d9730d", "#2da562", "#b05cc8", "#d1495b", "#8c7a3f"}

// A browser shows the picture by the scheme of its reader, also inside of a page.
const plotStyle = `<style>
svg { --paper: #ffffff; --ink: #1f2328; --faint: #d8dee4; --soft: #59636e }
@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --soft: #9198a1 } }
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; fill: var(--ink) }
.title { font-size: 15px; font-weight: 600 }
.soft { fill: #59636e; fill: var(--soft) }
.paper { fill: #ffffff; fill: var(--paper) }
.grid { stroke: #d8dee4; stroke: var(--faint); stroke-width: 1 }
.line { fill: none; stroke-width: 2 }
.main { stroke-width: 3.5 }
.lead { stroke-width: 1; opacity: .6 }
</style>
`

// svg draws the plot. It is empty if there is nothing to draw.
func (p plot) svg() string {
	xs, ys := p.values(func(p point) float64 { return p.x }), p.values(func(p point) float64 { return p.y })
	if len(xs) == 0 {
		return ""
	}
	right := axis{slices.Min(xs), slices.Max(xs), plotLeft, plotLeft + innerWidth}
	up := axis{decade(slices.Min(ys), math.Floor), decade(slices.Max(ys), math.Ceil), plotTop + innerHeight, plotTop}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight, escaped(p.title))
	s.WriteString(plotStyle)
	fmt.Fprintf(&s, `<rect class="paper" width="%d" height="%d"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&s, `<text class="title" x="%d" y="24">%s</text>`+"\n", plotLeft-56, escaped(p.title))
	fmt.Fprintf(&s, `<text class="soft" x="%d" y="44">%s</text>`+"\n", plotLeft-56, escaped(p.y))
	for _, y := range up.ticks() {
		at := up.place(y)
		fmt.Fprintf(&s, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, plotLeft, at, plotLeft+innerWidth, at)
		fmt.Fprintf(&s, `<text class="soft" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft-8, at+4.5, short(y))
	}
	slices.Sort(xs)
	for _, x := range slices.Compact(xs) {
		at := right.place(x)
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, at, plotTop, at, plotTop+innerHeight)
		fmt.Fprintf(&s, `<text class="soft" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, plotTop+innerHeight+20, short(x))
	}
	fmt.Fprintf(&s, `<text class="soft" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
		plotLeft+innerWidth/2, plotTop+innerHeight+42, escaped(p.x))
	p.draw(&s, right, up)
	s.WriteString("</svg>\n")
	return s.String()
}

func (p plot) values(of func(point) float64) (list []float64) {
	for _, l := range p.lines {
		for _, at := range l.points {
			list = append(list, of(at))
		}
	}
	return list
}

// draw draws the lines, and their names beside their ends, moved apart where they would overlap.
func (p plot) draw(s *strings.Builder, right, up axis) {
	type label struct {
		line     int
		from, at float64
		x        float64
	}
	var labels []label
	for i, l := range slices.Backward(p.lines) { // the first lies on top
		if len(l.points) == 0 {
			continue
		}
		class, radius := "line", 3.5
		if l.main {
			class, radius = "line main", 5
		}
		var path, dots strings.Builder
		for k, at := range l.points {
			command := "L"
			if k == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, right.place(at.x), up.place(at.y))
			fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>`, right.place(at.x), up.place(at.y), radius, colour(i))
		}
		fmt.Fprintf(s, `<path class="%s" stroke="%s" d="%s"/>%s`+"\n", class, colour(i), path.String(), dots.String())
		end := l.points[len(l.points)-1]
		labels = append(labels, label{i, up.place(end.y), up.place(end.y), right.place(end.x)})
	}
	slices.SortFunc(labels, func(a, b label) int { return int(math.Copysign(1, a.at-b.at)) })
	for i := range labels {
		if i > 0 {
			labels[i].at = max(labels[i].at, labels[i-1].at+labelHeight)
		}
	}
	// Labels that were moved down too far push those above them up.
	lowest := float64(plotTop + innerHeight)
	for i := range slices.Backward(labels) {
		labels[i].at = min(labels[i].at, lowest)
		lowest = labels[i].at - labelHeight
	}
	for _, l := range labels {
		const text = plotLeft + innerWidth + 24
		weight := ""
		if p.lines[l.line].main {
			weight = ` font-weight="600"`
		}
		fmt.Fprintf(s, `<line class="lead" stroke="%s" x1="%.1f" y1="%.1f" x2="%d" y2="%.1f"/>`, colour(l.line), l.x+6, l.from, text-4, l.at)
		fmt.Fprintf(s, `<text x="%d" y="%.1f"%s style="fill:%s">%s</text>`+"\n",
			text, l.at+4.5, weight, colour(l.line), escaped(p.lines[l.line].name))
	}
}

func colour(i int) string { return colours[i%len(colours)] }

// An axis is logarithmic.
type axis struct{ least, most, from, to float64 }

func (a axis) place(v float64) float64 {
	if a.least == a.most {
		return (a.from + a.to) / 2
	}
	return a.from + (a.to-a.from)*(math.Log(v)-math.Log(a.least))/(math.Log(a.most)-math.Log(a.least))
}

// ticks are the powers of ten, and where these are few, what lies between them.
func (a axis) ticks() (list []float64) {
	between := []float64{1}
	if a.most/a.least <= 1000 {
		between = []float64{1, 2, 5}
	}
	for power := decade(a.least, math.Floor); power <= a.most*1.001; power *= 10 {
		for _, n := range between {
			if v := n * power; v >= a.least*0.999 && v <= a.most*1.001 {
				list = append(list, v)
			}
		}
	}
	return list
}

// decade returns 1, 2 or 5 times a power of ten near v, on the side that round says.
func decade(v float64, round func(float64) float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	best := power
	for _, n := range []float64{1, 2, 5, 10} {
		c := n * power
		if round(0.5) == 0 && c <= v*1.001 {
			best = c
		}
		if round(0.5) == 1 && c >= v*0.999 {
			return c
		}
	}
	return best
}

func short(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3g", v)
	}
	return whole(v)
}

func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// plots returns the pictures of the documents by their file names. A plot leaves out what was not measured.
func (f figures) plots() map[string]plot {
	all := map[string]plot{}
	for _, store := range stores {
		all["contenders-"+store+".svg"] = f.contendersPlot(store)
	}
	all["queue-time.svg"] = f.queuePlot("time, beside that behind 10",
		func(r, first peerResult) float64 {
			if r.rate() == 0 {
				return 0
			}
			return first.rate() / r.rate()
		})
	all["queue-bytes.svg"] = f.queuePlot("bytes received",
		func(r, _ peerResult) float64 {
			if r.Wire == nil {
				return 0
			}
			return r.Wire.Received
		})
	for name, p := range all {
		if len(p.lines) == 0 {
			delete(all, name)
		}
	}
	return all
}

// contendersPlot is the cost of an acquisition against the number of contenders. Its unit is the pair of writes that any lock has
// to make, free; where that was not measured, farsync's free acquisition.
func (f figures) contendersPlot(store string) plot {
	p := plot{title: title(store) + ": the cost of an acquisition", x: "contenders"}
	unit := 0.0
	var names []string
	var results []result
	for _, r := range f.of(store, contended) {
		if r.Setting != "" {
			continue
		}
		results = append(results, r)
		for i, peer := range r.Peers {
			if r.N == 1 && i == len(r.Peers)-1 {
				unit, p.y = peer.rate(), "time, in pairs of "+peer.Name+" alone"
				continue // it would be a point without a line
			}
			if !slices.Contains(names, peer.Name) {
				names = append(names, peer.Name)
			}
		}
	}
	if unit == 0 {
		return plot{}
	}
	for _, name := range names {
		l := line{name: name, main: name == ours}
		for _, r := range results {
			if peer, is := r.find(name); is && peer.rate() > 0 {
				l.points = append(l.points, point{float64(r.N), unit / peer.rate()})
			}
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// queuePlot is what joining and leaving takes against the length of the queue, on all stores.
func (f figures) queuePlot(y string, of func(r, first peerResult) float64) plot {
	p := plot{title: "Joining a queue and leaving it", x: "entries in the queue", y: y}
	for _, store := range stores {
		list := f.of(store, queue)
		if len(list) == 0 {
			continue
		}
		for i, peer := range list[0].Peers[:min(2, len(list[0].Peers))] {
			name := peer.Name
			if i == 0 {
				name = ours + ", " + title(store)
			}
			l := line{name: name, main: i == 0}
			for _, r := range list {
				if v := of(r.Peers[i], peer); v > 0 {
					l.points = append(l.points, point{float64(r.N), v})
				}
			}
			if len(l.points) > 0 {
				p.lines = append(p.lines, l)
			}
		}
	}
	return p
}
