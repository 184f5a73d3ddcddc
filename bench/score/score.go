// Package score says what the figures of a report are worth: how close each is to its floor,
// which no admission can beat, how it grows, and whether it fell against an earlier report. It
// only computes; bench/report measures.
package score

import (
	"fmt"
	"math"
	"slices"
)

// Measure is one figure of a row.
type Measure struct {
	Name   string  `json:"name"` // such as rate
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Lower  bool    `json:"lower,omitempty"`  // lower is better
	Before float64 `json:"before,omitempty"` // on commit 034f99c; 0 if it was not measured
	Goal   float64 `json:"goal,omitempty"`   // 0 for none
	Floor  string  `json:"floor,omitempty"`  // name of the floor that it is compared to; "" for none
	// Ratio says how close the figure is to its floor: 1 is as good, higher is better. It is 0
	// without a floor.
	Ratio float64 `json:"ratio,omitempty"`
}

// Row is one kind of work and what it came to.
type Row struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Failed   int64     `json:"failed,omitempty"` // operations
	Measures []Measure `json:"measures"`
}

// Floor is what the parts can do without anything around them.
type Floor struct {
	Name  string  `json:"name"`
	Title string  `json:"title"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Lower bool    `json:"lower,omitempty"` // lower is better
}

// Point is one point of a curve.
type Point struct {
	X   float64 `json:"x"`
	Y   float64 `json:"y"`
	CPU float64 `json:"cpu_ms,omitempty"` // of one operation; 0 if it was not measured
}

// Curve is a figure that grows with something.
type Curve struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	X      string  `json:"x"` // name of what grows
	Y      string  `json:"y"` // name and unit of the figure
	Goal   string  `json:"goal,omitempty"`
	Points []Point `json:"points"`
	// Slope is that of the line through the logarithms of all points: 0 is constant, 1 linear.
	Slope float64 `json:"slope"`
}

// Report is all that one run measured.
type Report struct {
	At     string `json:"at"` // date of the run
	Commit string `json:"commit"`
	Go     string `json:"go"`
	CPUs   int64  `json:"cpus"`
	Short  bool   `json:"short,omitempty"`
	// Others is the part of the machine's processor time that other processes used meanwhile, 0
	// to 1. Figures of a busy machine are too low.
	Others float64 `json:"others"`
	Floors []Floor `json:"floors"`
	Rows   []Row   `json:"rows"`
	Curves []Curve `json:"curves"`
}

// Fill computes every ratio and slope of r from its figures. It returns an error for a measure
// whose floor is not in r.
func (r *Report) Fill() error {
	for i := range r.Rows {
		for k := range r.Rows[i].Measures {
			m := &r.Rows[i].Measures[k]
			if m.Floor == "" {
				continue
			}
			n := slices.IndexFunc(r.Floors, func(f Floor) bool { return f.Name == m.Floor })
			if n < 0 {
				return fmt.Errorf("row %s: there is no floor %q", r.Rows[i].Name, m.Floor)
			}
			m.Ratio = Ratio(m.Value, r.Floors[n].Value, m.Lower)
		}
	}
	for i := range r.Curves {
		r.Curves[i].Slope = Slope(r.Curves[i].Points)
	}
	return nil
}

// BestFloors returns the floors of b, each with the better value of a and b. Floors of a that b
// lacks are dropped.
func BestFloors(a, b []Floor) []Floor {
	best := slices.Clone(b)
	for i, f := range best {
		k := slices.IndexFunc(a, func(old Floor) bool { return old.Name == f.Name })
		if k >= 0 {
			best[i].Value = better(a[k].Value, f.Value, f.Lower)
		}
	}
	return best
}

// better returns the better of two values of one figure; 0 is none at all.
func better(a, b float64, lower bool) float64 {
	switch {
	case a == 0 || b == 0:
		return max(a, b)
	case lower:
		return min(a, b)
	}
	return max(a, b)
}

// Ratio returns how close a value is to its floor: 1 if it is as good, less if it is worse. It
// is 0 if one of them is not positive.
func Ratio(value, floor float64, lower bool) float64 {
	switch {
	case value <= 0 || floor <= 0:
		return 0
	case lower:
		return floor / value
	}
	return value / floor
}

// Slope returns the slope of the line that fits the logarithms of the points best, by least
// squares. Points that are not positive are left out; with fewer than two different X it is 0.
func Slope(points []Point) float64 {
	var n, sumX, sumY, sumXX, sumXY float64
	for _, p := range points {
		if p.X <= 0 || p.Y <= 0 {
			continue
		}
		x, y := math.Log(p.X), math.Log(p.Y)
		n, sumX, sumY, sumXX, sumXY = n+1, sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	spread := n*sumXX - sumX*sumX
	if n < 2 || spread < 1e-9 {
		return 0
	}
	return (n*sumXY - sumX*sumY) / spread
}

// FallMax is the part of a ratio that it may lose against an earlier report.
const FallMax = 0.15

// Fall is a ratio that has fallen by more than FallMax.
type Fall struct {
	Row, Measure string
	Was, Is      float64 // ratios; Is is 0 if it was not measured
}

// String says what fell, and by how much.
func (f Fall) String() string {
	if f.Is == 0 {
		return fmt.Sprintf("%s %s: was %.4f of its floor, and is missing", f.Row, f.Measure, f.Was)
	}
	return fmt.Sprintf("%s %s: was %.4f of its floor, is %.4f: %.0f %% less", f.Row, f.Measure, f.Was, f.Is, 100*(1-f.Is/f.Was))
}

// Compare returns every ratio of was that is in no row of now, or is lower there by more than
// FallMax. What is new in now is no fall.
func Compare(was, now *Report) []Fall {
	fresh := map[[2]string]float64{}
	for _, r := range now.Rows {
		for _, m := range r.Measures {
			fresh[[2]string{r.Name, m.Name}] = m.Ratio
		}
	}
	var falls []Fall
	for _, r := range was.Rows {
		for _, m := range r.Measures {
			is := fresh[[2]string{r.Name, m.Name}]
			if m.Ratio > 0 && is < m.Ratio*(1-FallMax) {
				falls = append(falls, Fall{r.Name, m.Name, m.Ratio, is})
			}
		}
	}
	return falls
}

// KeepBetter replaces in r the rows that again has too, measure by measure, where the ratio is
// better there.
func KeepBetter(r, again *Report) {
	for _, fresh := range again.Rows {
		i := slices.IndexFunc(r.Rows, func(old Row) bool { return old.Name == fresh.Name })
		if i < 0 {
			r.Rows = append(r.Rows, fresh)
			continue
		}
		for _, m := range fresh.Measures {
			k := slices.IndexFunc(r.Rows[i].Measures, func(old Measure) bool { return old.Name == m.Name })
			if k >= 0 && m.Ratio > r.Rows[i].Measures[k].Ratio {
				r.Rows[i].Measures[k] = m
			}
		}
	}
}
