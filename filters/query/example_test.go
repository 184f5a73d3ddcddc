package query_test

import (
	"fmt"

	"berth/api"
	"berth/filters/query"
)

func ExampleCompile() {
	q, err := query.Compile(`["and", [">=", "$free_ram_mb", 2048], ["not", ["=", "$rack", "r7"]]]`)
	if err != nil {
		fmt.Println(err)
		return
	}
	hosts := fleet{
		{free: api.Resources{api.MemoryMB: 4096}, attributes: map[string]string{"rack": "r1"}},
		{free: api.Resources{api.MemoryMB: 4096}, attributes: map[string]string{"rack": "r7"}},
		{free: api.Resources{api.MemoryMB: 1024}, attributes: map[string]string{"rack": "r1"}},
		{free: api.Resources{api.MemoryMB: 4096}}, // nobody knows its rack
	}
	pass := hosts.rows()
	q.Keep(hosts, &pass)
	for row := range pass.All() {
		fmt.Println("passes:", row)
	}
	fmt.Println(q)

	_, err = query.Compile(`["and", ["<", "$free_ram_mb", "2048", 1]]`)
	fmt.Println(err)
	// Output:
	// passes: 0
	// ["and",[">=","$free_ram_mb",2048],["not",["=","$rack","r7"]]]
	// query: at [1][2]: < compares values of one type; a number and a text never match
}
