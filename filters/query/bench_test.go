package query_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"berth/api"
	"berth/capacity"
	"berth/filters/query"
)

// ready gives columns that were made before.
type ready map[string]*query.Column

func (r ready) Free(api.ResourceClass) *query.Column  { return r["free"] }
func (r ready) Total(api.ResourceClass) *query.Column { return r["total"] }
func (r ready) Instances() *query.Column              { return r["instances"] }
func (r ready) Attribute(name string) *query.Column   { return r[name] }
func (r ready) AZ() *query.Column                     { return nil }
func (r ready) Name() *query.Column                   { return nil }

// BenchmarkKeep evaluates queries that need every host of a large zone.
func BenchmarkKeep(b *testing.B) {
	const hosts = 10_000
	p := pick(rand.New(rand.NewPCG(1, 2)).IntN)
	columns := ready{"free": query.NewColumn(hosts), "rack": query.NewColumn(hosts)}
	every := capacity.NewSet(hosts)
	for row := range hosts {
		columns["free"].SetNumber(row, int64(p(1_000)))
		columns["rack"].SetText(row, fmt.Sprintf("rack-%02d", p(40)))
		every.Add(row)
	}
	for _, kind := range []struct{ name, term string }{
		{"number", `["<","$free_ram_mb",%d]`},
		{"text", `["not",["=","$rack","rack-%d"]]`},
	} {
		for _, terms := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("kind=%s/terms=%d", kind.name, terms), func(b *testing.B) {
				text := []string{`["and"`}
				for i := range terms {
					text = append(text, fmt.Sprintf(kind.term, 990-i*60))
				}
				q, err := query.Compile(strings.Join(text, ",") + "]")
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					pass := every.Clone()
					q.Keep(columns, &pass)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hosts, "ns/host")
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, terms := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("terms=%d", terms), func(b *testing.B) {
			text := `["and"` + strings.Repeat(`,["<","$free_ram_mb",1024]`, terms) + "]"
			b.ReportAllocs()
			for b.Loop() {
				if _, err := query.Compile(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
